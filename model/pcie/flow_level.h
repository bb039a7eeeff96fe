// SPDX-License-Identifier: Apache-2.0

// The simulator for fleets: streams are fluids with weighted max-min fair shares of stations, and only ends of streams
// are events. It takes milliseconds where bursts would take hours; it returns rates and bottlenecks, but no latency
// distribution and no timeline. It shares between streams, not between ports as round robin does.
#pragma once

#include "model/pcie/network.h"
#include "model/pcie/outcome.h"

namespace penstock::model {

Outcome simulate_flows(const Network& network, const Workload& workload);

}  // namespace penstock::model
