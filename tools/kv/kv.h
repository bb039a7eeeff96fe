// SPDX-License-Identifier: Apache-2.0

// `penstock kv`: looks after stores of KV caches (kv/store.h), from outside of the processes that use them. One
// sub-command for each task, and a row for it.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_kv(CommandLine& command);

}  // namespace penstock::tools
