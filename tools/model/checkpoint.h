// SPDX-License-Identifier: Apache-2.0

// penstock model checkpoint, penstock model load: seconds for each kind of path, how often to save, what a run loses.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock::tools {

void add_model_checkpoint(CLI::App& parent, int& exit_code);
void add_model_load(CLI::App& parent, int& exit_code);

}  // namespace penstock::tools
