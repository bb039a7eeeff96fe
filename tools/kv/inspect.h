// SPDX-License-Identifier: Apache-2.0

// `penstock kv inspect`: what stores have, by their journals. Reads no chunk, and disturbs nobody.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_kv_inspect(CommandLine& command);

}  // namespace penstock::tools
