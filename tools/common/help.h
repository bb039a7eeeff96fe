// SPDX-License-Identifier: Apache-2.0

// What CLI11 answers to --help and --version, by the tools' own way to the terminal.
#pragma once

#include <CLI/CLI.hpp>
#include <sstream>

#include "tools/common/terminal.h"

namespace penstock::tools {

// The exit code.
inline int print_help(const CLI::App& app, const CLI::Success& asked_for_help) {
  std::ostringstream text;
  const int exit_code = app.exit(asked_for_help, text, text);
  print("{}", Text(text.str()));
  return exit_code;
}

}  // namespace penstock::tools
