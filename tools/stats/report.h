// SPDX-License-Identifier: Apache-2.0

// Formats statistics for people, programs and Prometheus. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/common/stats_source.h"
#include "tools/stats/rates.h"

namespace penstock::tools {

// A table of the counts; also of the rates if `moved` has what moved since the look before.
std::string ways_text(const Ways& ways, const Moved* moved = nullptr);

// The output of `penstock stats PID`.
std::string process_text(const ProcessView& process, const Moved* moved = nullptr);
std::string machine_text(const MachineView& machine);

nlohmann::ordered_json process_json(const ProcessView& process);
nlohmann::ordered_json other_json(const ProcessWithCuFile& process);  // A process without a session.
nlohmann::ordered_json machine_json(const MachineView& machine);

// The text format of Prometheus, version 0.0.4.
std::string prometheus_text(const std::vector<ProcessView>& processes);

}  // namespace penstock::tools
