// SPDX-License-Identifier: Apache-2.0

// The simulator for fleets: streams are fluids that share stations max-min fairly, by weight, and only ends of streams
// are events. It answers in milliseconds where bursts would take hours, and it gives rates and what binds, but no
// latencies' spread and no timeline. Shares are between streams, not between ports as round robin's are.
#pragma once

#include "model/pcie/network.h"
#include "model/pcie/outcome.h"

namespace penstock::model {

Outcome simulate_flows(const Network& network, const Workload& workload);

}  // namespace penstock::model
