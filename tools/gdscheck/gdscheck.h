// SPDX-License-Identifier: Apache-2.0

// gdscheck: what NVIDIA's tool of that name tells, in the layout that other programs read, of Penstock's library.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_gdscheck(CommandLine& command);

}  // namespace penstock::tools
