// SPDX-License-Identifier: Apache-2.0

// `penstock odirect`: tries on a folder's file system what may keep direct I/O from being direct.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_odirect(CommandLine& command);

}  // namespace penstock::tools
