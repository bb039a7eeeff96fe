// SPDX-License-Identifier: Apache-2.0

// Judges objects as an API server would that is asked to be strict, as kubectl asks it: unknown and missing keys, wrong
// types and values, and the rules that the operators' definitions have beyond these. Values of the Helm chart are
// judged by the same tables, since the chart has no schema of its own.
#pragma once

#include "k8s/findings.h"
#include "k8s/objects.h"

namespace penstock::tools::k8s {

void judge_all(const Cluster& cluster, Findings& findings);

}  // namespace penstock::tools::k8s
