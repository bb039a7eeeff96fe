// SPDX-License-Identifier: Apache-2.0

// Statistics as people, programs and Prometheus read them. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/common/stats_source.h"
#include "tools/stats/rates.h"

namespace penstock::tools {

// Summed up over a process's sessions.
Ways ways_of(const ProcessView& process);

// A table of them, also of rates where it is known what moved since the look before.
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
