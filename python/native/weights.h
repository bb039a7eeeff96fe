// SPDX-License-Identifier: Apache-2.0

// Headers of safetensors files for penstock.weights: read, checked and written by src/weights.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

void bind_weights(nanobind::module_& module);

}  // namespace penstock::python
