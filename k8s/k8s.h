// SPDX-License-Identifier: Apache-2.0

// penstock k8s: what concerns GPUDirect Storage under Kubernetes. One sub-command for each task, and a row for it.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_k8s(CommandLine& command);

}  // namespace penstock::tools
