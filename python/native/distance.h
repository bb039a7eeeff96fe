// SPDX-License-Identifier: Apache-2.0

// The distance of a folder's drive from a GPU, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

void bind_distance(nanobind::module_& module);

}  // namespace penstock::python
