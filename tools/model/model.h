// SPDX-License-Identifier: Apache-2.0

// penstock model: what a machine will reach, by the models of model/. One sub-command for each.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock::tools {

void add_model(CLI::App& app, int& exit_code);

}  // namespace penstock::tools
