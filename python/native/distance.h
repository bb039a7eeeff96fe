// SPDX-License-Identifier: Apache-2.0

// How far the drive of a folder is from a GPU, as Python has it.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

void bind_distance(nanobind::module_& module);

}  // namespace penstock::python
