// SPDX-License-Identifier: Apache-2.0

// The discrete-event simulator: bursts of packets that queue, are arbitrated, wait for credits and pass, station after
// station. One call is one run; the same network, workload and seed give the same events in the same order.
//
// Modelled: packet headers on every link, fair arbitration between lanes, the cost of changing streams, fences, port
// buffers with back-pressure, command queues and access times of drives, depth, stores striped over, legs through host
// memory. Not modelled: retries after link errors, read requests as bytes of their own, cache effects in host memory.
#pragma once

#include "model/pcie/network.h"
#include "model/pcie/outcome.h"

namespace penstock::model {

// Checks conservation before it returns.
Outcome simulate(const Network& network, const Workload& workload);

}  // namespace penstock::model
