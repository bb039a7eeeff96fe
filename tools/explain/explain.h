// SPDX-License-Identifier: Apache-2.0

// penstock explain: the facts of a file and the verdict of every path on it.
#pragma once

#include <string>

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_explain(CommandLine& command);

// The same for a read of the file into GPU 0, for gdscheck -f. The exit code.
int explain_file(const std::string& file);

}  // namespace penstock::tools
