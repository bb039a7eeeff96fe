// SPDX-License-Identifier: Apache-2.0

// The statistics of running processes as `penstock stats` and gds_stats ask for them: with the command's name, and with
// one sentence where they cannot be had. Only looks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "stats/process_stats.h"
#include "tools/common/cufile_mappings.h"

namespace penstock::tools {

// Path, reason, op.
using WayKey = std::tuple<std::string, std::string, core::Op>;
struct WayCount {
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;
};
using Ways = std::map<WayKey, WayCount>;

struct ProcessView {
  pid_t pid = 0;
  std::string command;
  std::vector<core::StatsSnapshot> sessions;
  std::string refusal;  // Why some of its sessions were not read, or "".
};

// Throws a Failure: exit code 1 where there is no such process, or it is not ours to look at; 77 where it has no
// session open.
ProcessView look_at(pid_t pid);
// Nothing where the process, or its last session, has ended meanwhile.
std::optional<ProcessView> look_again(pid_t pid);

struct MachineView {
  std::vector<ProcessView> processes;
  unsigned hidden = 0;
  unsigned not_looked_at = 0;                      // For a limit.
  std::vector<ProcessWithCuFile> without_session;  // Processes that have a libcufile, ours or NVIDIA's.
  std::string why_hidden;                          // How many, in a sentence, and what would show them.
};
MachineView look_at_all();

}  // namespace penstock::tools
