// SPDX-License-Identifier: Apache-2.0

// How labels of a node begin that Node Feature Discovery makes of what `penstock serve` sees. Who writes and who reads
// them share it.
#pragma once

namespace penstock::tools {

// Of Node Feature Discovery's own domain, which no setting of it forbids.
constexpr const char* kFeaturePrefix = "feature.node.kubernetes.io/penstock";

}  // namespace penstock::tools
