// SPDX-License-Identifier: Apache-2.0

// `penstock stats`: what running processes have moved, on which paths and for what reasons.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock::tools {

void add_stats(CLI::App& app, int& exit_code);

}  // namespace penstock::tools
