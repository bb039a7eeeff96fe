// SPDX-License-Identifier: Apache-2.0

// What each path needs, and which of it a machine lacks. Pure: it only looks at what was read.
#pragma once

#include <string>
#include <vector>

#include "tools/common/machine.h"

namespace penstock::tools {

struct Need {
  const char* code;    // Stable.
  core::Tristate met;  // unknown: only a try will tell.
  std::string text;    // What was found.
  std::string remedy;  // One sentence; for whoever lacks it.
};

struct PathReport {
  int path = 0;  // penstock_path
  bool usable = false;
  int reason = PENSTOCK_REASON_NONE;
  std::vector<Need> needs;
  bool is_proven = false;  // By a self-test, before it serves.
};

// Device memory to storage and back without a CPU, where it serves.
bool is_direct_path(int path);

// Of all that are tried where nobody names paths, best first.
std::vector<PathReport> report_paths(const Machine& machine);

const char* state_name(core::Tristate met);  // "ok", "missing", "unknown"

// Also shown by themselves.
Need need_io_uring(const Machine& machine);
std::string bytes_text(std::uint64_t bytes);  // "8 MiB", "unlimited"

}  // namespace penstock::tools
