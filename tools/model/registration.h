// SPDX-License-Identifier: Apache-2.0

// penstock model registration: what registering memory costs, and from which I/O on it pays to do it once.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock::tools {

void add_model_registration(CLI::App& parent, int& exit_code);

}  // namespace penstock::tools
