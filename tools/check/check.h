// SPDX-License-Identifier: Apache-2.0

// penstock check: what this machine, or a captured one, offers to each path and what it lacks.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock::tools {

void add_check(CLI::App& app, int& exit_code);

}  // namespace penstock::tools
