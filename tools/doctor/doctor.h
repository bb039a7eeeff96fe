// SPDX-License-Identifier: Apache-2.0

// penstock explain --measure: why a load or a save takes as long as it does, what would change it, and by how much.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_doctor(CommandLine& command);

}  // namespace penstock::tools
