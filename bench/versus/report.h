// SPDX-License-Identifier: Apache-2.0

// A contest's outcome, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>

#include "bench/versus/contest.h"

namespace penstock::versus {

void print(const Outcome& outcome, bool judge);
nlohmann::ordered_json json(const Outcome& outcome, bool judge);
// The machine, the time, and the versions of both libraries and the driver.
nlohmann::ordered_json machine_json(const std::string& gpu);

}  // namespace penstock::versus
