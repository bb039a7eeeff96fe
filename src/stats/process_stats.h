// SPDX-License-Identifier: Apache-2.0

// Finds the statistics of running processes: the segments of their open sessions, through /proc/PID/fd. It only reads.
// The kernel shows segments to the same user and to root. Reading has fixed limits (look_budget.h), and reports what it
// left out.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "stats/look_budget.h"
#include "stats/reader.h"

namespace penstock::core {

struct ProcessStats {
  pid_t pid = 0;
  std::vector<StatsSnapshot> sessions;  // In the order in which they were opened.
  unsigned refused = 0;                 // Segments that could not be read; `refusal` is the reason of the first.
  Status refusal;
  unsigned not_read = 0;      // Segments left out because of a limit.
  bool is_cut_short = false;  // The process has more descriptors than were read.
};

// Fails with ENOENT if there is no such process, and with EACCES if this user may not look at it. A process without an
// open session has no statistics.
Result<ProcessStats> stats_of_process(pid_t pid);

// Settings for reading all processes.
struct LookSettings {
  std::string proc = "/proc";  // The folder where /proc is mounted, perhaps the host's.
  LookLimits process = kProcessLimits;
  LookLimits machine = kMachineLimits;
};
struct LookResult {
  unsigned looked_at = 0;      // Processes, whether or not they have a session.
  unsigned hidden = 0;         // Processes that this user may not look at.
  unsigned not_looked_at = 0;  // Processes that were left out because of a limit, wholly or in part.
};
// Calls `visit` for each process that has statistics, with its folder in /proc, which refers to that process even if
// its PID is reused. Keeps nothing. Fails if there is no such /proc.
using VisitProcess = std::function<void(const ProcessStats& process, int folder)>;
Result<LookResult> look_at_processes(const LookSettings& settings, const VisitProcess& visit);

struct AllStats {
  std::vector<ProcessStats> processes;  // Processes that have statistics.
  unsigned hidden = 0;                  // The same as in LookResult.
  unsigned not_looked_at = 0;
};
AllStats stats_of_all_processes();

}  // namespace penstock::core
