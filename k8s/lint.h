// SPDX-License-Identifier: Apache-2.0

// penstock k8s lint: what is wrong in manifests, before a cluster sees them.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools::k8s {

void add_lint(CommandLine& command);

}  // namespace penstock::tools::k8s
