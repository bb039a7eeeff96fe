// SPDX-License-Identifier: Apache-2.0

// penstock prepare: makes or extends a file so that direct writes to it stay direct.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock::tools {

void add_prepare(CLI::App& app, int& exit_code);

}  // namespace penstock::tools
