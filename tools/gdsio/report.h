// SPDX-License-Identifier: Apache-2.0

// The output of gdsio about a run: the line that programs read, the way the bytes took, or JSON. Pure.
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
  std::uint64_t data_bytes = 0;  // All files'.
  JobResult result;
  std::vector<Counter> ways;  // By path and reason, of this pass; empty where the library took no part.
};

// "IoType: READ XferType: GPUD Threads: 4 DataSetSize: 1024/1024(KiB) IOSize: 64(KiB) Throughput: ..."
std::string result_line(const GdsioSettings& settings, const GdsioOutcome& outcome);
// "Path: bounce 100.0% (...)"; one a path and reason.
std::string path_lines(const GdsioSettings& settings, const GdsioOutcome& outcome);
Json outcome_json(const GdsioSettings& settings, const GdsioOutcome& outcome);

}  // namespace penstock::tools
