// SPDX-License-Identifier: Apache-2.0

// gdscheck: answers as NVIDIA's tool of that name does, in the layout that programs read, for Penstock's library.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_gdscheck(CommandLine& command);

}  // namespace penstock::tools
