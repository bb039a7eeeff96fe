// SPDX-License-Identifier: Apache-2.0

// `penstock kv inspect`: the chunks of stores, by their journals. Reads no chunk, and disturbs no other process.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_kv_inspect(CommandLine& command);

}  // namespace penstock::tools
