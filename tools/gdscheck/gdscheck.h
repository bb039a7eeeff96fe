// SPDX-License-Identifier: Apache-2.0

// gdscheck: the answers of NVIDIA's tool of that name, in the layout that programs read, about Penstock's library.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_gdscheck(CommandLine& command);

}  // namespace penstock::tools
