// SPDX-License-Identifier: Apache-2.0

// penstock cp: copies a file through device memory; the file under the final name is always whole.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_cp(CommandLine& command);

}  // namespace penstock::tools
