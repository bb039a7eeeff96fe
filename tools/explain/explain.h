// SPDX-License-Identifier: Apache-2.0

// penstock explain: the facts of a file and the verdict of every path on it.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_explain(CommandLine& command);

}  // namespace penstock::tools
