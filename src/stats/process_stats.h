// SPDX-License-Identifier: Apache-2.0

// Finds the statistics of running processes: the segments of their open sessions, through /proc/PID/fd. Looks only. The
// kernel shows them to the same user and to root. A look is bounded, whatever there is to see (look_budget.h), and says
// what it left out.
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
  unsigned refused = 0;                 // Segments that could not be read; the first of them says why.
  Status refusal;
  unsigned not_read = 0;      // Segments that were left out for a limit.
  bool is_cut_short = false;  // There are more descriptors than were looked at.
};

// Fails with ENOENT where there is no such process, with EACCES where it is not ours to look at. A process without an
// open session has none.
Result<ProcessStats> stats_of_process(pid_t pid);

// A look at all processes: where they are, and what it may cost.
struct LookSettings {
  std::string proc = "/proc";  // Or where the host's is mounted.
  LookLimits process = kProcessLimits;
  LookLimits machine = kMachineLimits;
};
struct LookResult {
  unsigned looked_at = 0;      // Processes, whether or not they have a session.
  unsigned hidden = 0;         // Processes that are not ours to look at.
  unsigned not_looked_at = 0;  // Processes that were left out for a limit, wholly or from a descriptor on.
};
// Calls `visit` for each process that has any statistics, with its folder in /proc, which stays the same process's
// whatever becomes of its number. Keeps nothing. Fails where there is no such /proc.
using VisitProcess = std::function<void(const ProcessStats& process, int folder)>;
Result<LookResult> look_at_processes(const LookSettings& settings, const VisitProcess& visit);

struct AllStats {
  std::vector<ProcessStats> processes;  // Processes that have any.
  unsigned hidden = 0;                  // The same as in LookResult.
  unsigned not_looked_at = 0;
};
AllStats stats_of_all_processes();

}  // namespace penstock::core
