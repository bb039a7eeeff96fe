// SPDX-License-Identifier: Apache-2.0

// `penstock kv bench`: replays a trace of prompts on a store of its own, and says what the store is worth.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_kv_bench(CommandLine& command);

}  // namespace penstock::tools
