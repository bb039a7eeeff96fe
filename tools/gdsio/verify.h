// SPDX-License-Identifier: Apache-2.0

// gdsio_verify: reads a file with cuFile and with the kernel alone, and compares every byte.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_gdsio_verify(CommandLine& command);

}  // namespace penstock::tools
