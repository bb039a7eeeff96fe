// SPDX-License-Identifier: Apache-2.0

// The discrete-event simulator: bursts of packets that queue, are arbitrated and wait for credits at one station after
// the other. One call is one run; the same network, workload and seed give the same events in the same order.
//
// Modelled: packet headers on every link, fair arbitration between lanes, the cost of changing streams, fences, port
// buffers with back-pressure, command queues and access times of drives, depth, striped stores, legs through host
// memory. Not modelled: retries after link errors, the bytes of read requests, cache effects in host memory.
#pragma once

#include "model/pcie/network.h"
#include "model/pcie/outcome.h"

namespace penstock::model {

// Checks conservation before it returns.
Outcome simulate(const Network& network, const Workload& workload);

}  // namespace penstock::model
