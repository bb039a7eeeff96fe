// SPDX-License-Identifier: Apache-2.0

// `penstock serve`: the process of a Kubernetes DaemonSet, or of a service. It gives the bytes that all processes of a
// node move, and the node's offers, as metrics, as features for labels, and as one answer to node-problem-detector.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_serve(CommandLine& command);

}  // namespace penstock::tools
