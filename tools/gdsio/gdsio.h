// SPDX-License-Identifier: Apache-2.0

// gdsio: NVIDIA's measuring tool by its own name, flags and result line, on Penstock's library.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_gdsio(CommandLine& command);

}  // namespace penstock::tools
