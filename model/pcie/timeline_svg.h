// SPDX-License-Identifier: Apache-2.0

// The timeline picture: a row for each of the busiest stations, darker the busier, and above them the rate of every
// stream over time. One SVG for any browser.
#pragma once

#include <string>

#include "model/pcie/network.h"
#include "model/pcie/outcome.h"

namespace penstock::model {

std::string timeline_svg(const Network& network, const Outcome& outcome, const std::string& title);

}  // namespace penstock::model
