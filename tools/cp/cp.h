// SPDX-License-Identifier: Apache-2.0

// penstock cp: copies a file through device memory; what it leaves under the final name is whole.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock::tools {

void add_cp(CLI::App& app, int& exit_code);

}  // namespace penstock::tools
