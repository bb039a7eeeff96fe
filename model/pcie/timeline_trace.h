// SPDX-License-Identifier: Apache-2.0

// The timeline as a trace for viewers: Perfetto's, or Chrome's about:tracing. Two processes of counters: "streams" with
// the rate of each in GB/s and a bar for the time that it ran, and "links and devices" with how busy each station was,
// in percent; one value a bin. In the Trace Event Format, times in microseconds of the run.
// Source: Google, "Trace Event Format"; Perfetto documentation, "Visualizing external trace formats".
#pragma once

#include <string>

#include "model/pcie/network.h"
#include "model/pcie/outcome.h"

namespace penstock::model {

std::string timeline_trace(const Network& network, const Outcome& outcome, const std::string& title);

}  // namespace penstock::model
