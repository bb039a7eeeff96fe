// SPDX-License-Identifier: Apache-2.0

// penstock k8s choose: which nodes may have which path, and why no better one.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools::k8s {

void add_choose(CommandLine& command);

}  // namespace penstock::tools::k8s
