// SPDX-License-Identifier: Apache-2.0

#include "tools/common/terminal.h"

#include <unistd.h>

#include <cstdio>

namespace penstock::tools {

void terminal::write_out(std::string_view safe) { std::fwrite(safe.data(), 1, safe.size(), stdout); }

void terminal::write_error(std::string_view safe) {
  std::fwrite(safe.data(), 1, safe.size(), stderr);
  std::fflush(stderr);
}

bool flush_output() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool error_is_terminal() { return isatty(STDERR_FILENO) == 1; }

}  // namespace penstock::tools
