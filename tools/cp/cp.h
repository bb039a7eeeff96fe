// SPDX-License-Identifier: Apache-2.0

// penstock cp: copies a file through device memory; what it leaves under the final name is whole.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_cp(CommandLine& command);

}  // namespace penstock::tools
