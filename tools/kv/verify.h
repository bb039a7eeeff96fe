// SPDX-License-Identifier: Apache-2.0

// `penstock kv verify`: reads every chunk and compares it with its header and its checksum. Writes nothing, also
// beside the process that writes the store.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_kv_verify(CommandLine& command);

}  // namespace penstock::tools
