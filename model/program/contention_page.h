// SPDX-License-Identifier: Apache-2.0

// A run of the contention model as one HTML page that needs no network: the tree with its links coloured by load, the
// streams over time, and all numbers in tooltips and tables.
#pragma once

#include <string_view>

#include "model/program/contention_report.h"

namespace penstock::tools {

std::string_view contention_page();  // "" if this build has no plots.
// The page's data: contention_json(), the tree, and the timelines if the level has them.
nlohmann::ordered_json contention_page_json(const ContentionReport& report);

}  // namespace penstock::tools
