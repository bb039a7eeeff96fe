// SPDX-License-Identifier: Apache-2.0

// gds_install_check [--root DIR] [--json]: says which parts of GPUDirect Storage are installed, with a remedy for each
// that is not. Exit code 0: all are. 1: one is missing. 77: this machine has no NVIDIA GPU to install them for.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_gds_install_check(CommandLine& command);

}  // namespace penstock::tools
