// SPDX-License-Identifier: Apache-2.0

// `penstock kv compact`: writes the journals of stores anew, without what is not there any more.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_kv_compact(CommandLine& command);

}  // namespace penstock::tools
