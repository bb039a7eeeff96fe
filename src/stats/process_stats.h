// SPDX-License-Identifier: Apache-2.0

// Finds the statistics of running processes: the segments of their open sessions, through /proc/PID/fd. Looks only. The
// kernel shows them to the same user and to root. A look is bounded, whatever there is to see (look_budget.h), and says
// what it left out.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/status.h"
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

struct AllStats {
  std::vector<ProcessStats> processes;  // Those that have any.
  unsigned hidden = 0;                  // Processes that are not ours to look at.
  unsigned not_looked_at = 0;           // Processes that were left out for a limit, wholly or from a descriptor on.
};
AllStats stats_of_all_processes();

}  // namespace penstock::core
