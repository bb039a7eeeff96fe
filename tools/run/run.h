// SPDX-License-Identifier: Apache-2.0

// penstock run: runs a program with our libcufile in front of NVIDIA's, and proves which of the two it had.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_run(CommandLine& command);

}  // namespace penstock::tools
