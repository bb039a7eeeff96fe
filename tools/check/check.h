// SPDX-License-Identifier: Apache-2.0

// penstock check: says what this machine, or a captured one, offers each path, and what it lacks.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_check(CommandLine& command);

}  // namespace penstock::tools
