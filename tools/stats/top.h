// SPDX-License-Identifier: Apache-2.0

// `penstock stats --live`: the bytes that all processes with a session move now, by path, on a screen that stays.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_top(CommandLine& command);

}  // namespace penstock::tools
