// SPDX-License-Identifier: Apache-2.0

// Judges objects like an API server in strict mode, which kubectl uses: unknown and missing keys, wrong types and
// values, and the additional rules of the operators' definitions. The same tables judge values of the Helm chart, which
// has no schema.
#pragma once

#include "k8s/findings.h"
#include "k8s/objects.h"

namespace penstock::tools::k8s {

void judge_all(const Cluster& cluster, Findings& findings);

}  // namespace penstock::tools::k8s
