// SPDX-License-Identifier: Apache-2.0

// penstock bench --every-path: weights-like data from device memory to a file and back, verified, by every path this
// machine has.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_demo(CommandLine& command);

}  // namespace penstock::tools
