// SPDX-License-Identifier: Apache-2.0

// The statistics of running processes for `penstock stats` and gds_stats: with the command's name, and with one
// sentence if they cannot be read. It only looks.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "stats/process_stats.h"
#include "tools/common/cufile_mappings.h"

namespace penstock::tools {

// The key: path, reason, operation.
using WayKey = std::tuple<std::string, std::string, core::Op>;
struct WayCount {
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;

  WayCount& operator+=(const WayCount& more);
};
using Ways = std::map<WayKey, WayCount>;

WayCount growth(const WayCount& before, const WayCount& now);  // Nothing of a count that became less.
void add_ways(const core::StatsSnapshot& session, Ways& ways);
Ways counts_of(const std::vector<core::StatsSnapshot>& sessions);
std::array<WayCount, 2> sums_of(const Ways& ways);  // By core::Op: reads first.

struct ProcessView {
  pid_t pid = 0;
  std::string command;
  std::vector<core::StatsSnapshot> sessions;
  std::string refusal;  // The reason why some of its sessions were not read, or "".
};

// Throws a Failure: exit code 1 if there is no such process or this user may not look at it, 77 if it has no session
// open.
ProcessView look_at(pid_t pid);
// Nothing if the process, or its last session, has ended meanwhile.
std::optional<ProcessView> look_again(pid_t pid);

struct MachineView {
  std::vector<ProcessView> processes;
  unsigned hidden = 0;
  unsigned not_looked_at = 0;                      // Left out because of a limit.
  std::vector<ProcessWithCuFile> without_session;  // Processes that have a libcufile, Penstock's or NVIDIA's.
  std::string why_hidden;                          // A sentence: how many are hidden, and what would show them.
};
MachineView look_at_all();

}  // namespace penstock::tools
