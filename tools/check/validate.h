// SPDX-License-Identifier: Apache-2.0

// penstock validate: says whether a machine is set up for GPUDirect Storage, in three layers, with one exit code.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_validate(CommandLine& command);

}  // namespace penstock::tools
