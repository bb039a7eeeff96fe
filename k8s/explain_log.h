// SPDX-License-Identifier: Apache-2.0

// penstock k8s explain-log: from the log of a pod that fails to what is wrong and what to do.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools::k8s {

void add_explain_log(CommandLine& command);

}  // namespace penstock::tools::k8s
