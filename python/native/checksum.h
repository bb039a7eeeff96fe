// SPDX-License-Identifier: Apache-2.0

// CRC32C of what Python has in host memory.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

void bind_checksum(nanobind::module_& module);

}  // namespace penstock::python
