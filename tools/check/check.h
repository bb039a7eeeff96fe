// SPDX-License-Identifier: Apache-2.0

// penstock check: the offers of this machine, or of a captured one, to each path, and the needs that it lacks.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_check(CommandLine& command);

}  // namespace penstock::tools
