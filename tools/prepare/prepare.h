// SPDX-License-Identifier: Apache-2.0

// penstock explain --fix: makes or extends a file so that direct writes to it stay direct.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_prepare(CommandLine& command);

}  // namespace penstock::tools
