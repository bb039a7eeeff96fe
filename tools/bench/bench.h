// SPDX-License-Identifier: Apache-2.0

// penstock bench: measures reads or writes of one file through a session.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_bench(CommandLine& command);

}  // namespace penstock::tools
