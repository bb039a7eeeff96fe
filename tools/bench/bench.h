// SPDX-License-Identifier: Apache-2.0

// penstock bench: measures reads or writes of one file through a session.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock::tools {

void add_bench(CLI::App& app, int& exit_code);

}  // namespace penstock::tools
