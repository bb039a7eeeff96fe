// SPDX-License-Identifier: Apache-2.0

// penstock k8s verify: from evidence, which direct path a node has to which storage, and what stands in its way first.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools::k8s {

void add_verify(CommandLine& command);

}  // namespace penstock::tools::k8s
