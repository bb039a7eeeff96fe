// SPDX-License-Identifier: Apache-2.0

// Formats the result of a gdsio run: the line that programs read, the path that the bytes took, or JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "tools/common/context.h"
#include "tools/common/runner.h"
#include "tools/gdsio/settings.h"

namespace penstock::tools {

// One pass over the files: with -V a write is followed by a read.
struct GdsioOutcome {
  bool is_write = false;
  bool is_random = false;
  unsigned threads = 1;
  unsigned depth = 0;            // 0: no batch.
  std::uint64_t data_bytes = 0;  // The sum over all files.
  JobResult result;
  std::vector<Counter> ways;  // The counts of this pass by path and reason; empty if the library took no part.
};

// The line that programs read: "IoType: READ XferType: GPUD Threads: 4 DataSetSize: 1024/1024(KiB) IOSize: 64(KiB)
// Throughput: ..."
std::string result_line(const GdsioSettings& settings, const GdsioOutcome& outcome);
// Lines of the form "Path: bounce 100.0% (...)", one for each path and reason.
std::string path_lines(const GdsioSettings& settings, const GdsioOutcome& outcome);
Json outcome_json(const GdsioSettings& settings, const GdsioOutcome& outcome);

}  // namespace penstock::tools
