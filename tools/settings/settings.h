// SPDX-License-Identifier: Apache-2.0

// penstock settings: every setting of the library with its value, who said it, and what it does.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_settings(CommandLine& command);

}  // namespace penstock::tools
