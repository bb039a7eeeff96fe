// SPDX-License-Identifier: Apache-2.0

// The prefix of the node labels that Node Feature Discovery makes from the facts of `penstock serve`. The writer and
// the reader of these labels share it.
#pragma once

namespace penstock::tools {

// Lies in Node Feature Discovery's own domain, which none of its settings forbids.
constexpr const char* kFeaturePrefix = "feature.node.kubernetes.io/penstock";

}  // namespace penstock::tools
