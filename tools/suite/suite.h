// SPDX-License-Identifier: Apache-2.0

// penstock bench --suite: the published table of saves and loads, at a scale that fits here, without Penstock and with
// it.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_suite(CommandLine& command);

}  // namespace penstock::tools
