// SPDX-License-Identifier: Apache-2.0

// penstock model compare: benchmark results beside what a model calibrated on part of them predicts.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock::tools {

void add_model_compare(CLI::App& parent, int& exit_code);

}  // namespace penstock::tools
