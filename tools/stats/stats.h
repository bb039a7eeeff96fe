// SPDX-License-Identifier: Apache-2.0

// `penstock stats`: the bytes that running processes have moved, on which paths and for what reasons.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_stats(CommandLine& command);

}  // namespace penstock::tools
