// SPDX-License-Identifier: Apache-2.0

// gds_stats: cuFile's statistics of a running process, in the layout that NVIDIA's tool of this name prints (version
// 8).
#pragma once

#include <string>

#include "stats/cufile_counters.h"
#include "tools/common/command_line.h"

namespace penstock::tools {

void add_gds_stats(CommandLine& command);

// The output at a level from 1 to 3. Pure.
std::string gds_stats_text(const core::CufileTotals& totals, unsigned level);

}  // namespace penstock::tools
