// SPDX-License-Identifier: Apache-2.0

// penstock demo: weights-like data from device memory to a file and back, verified, by every path this machine has.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock::tools {

void add_demo(CLI::App& app, int& exit_code);

}  // namespace penstock::tools
