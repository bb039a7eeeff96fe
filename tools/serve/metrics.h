// SPDX-License-Identifier: Apache-2.0

// A look at a node, as a page of metrics. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "stats/process_stats.h"
#include "tools/common/exposition.h"
#include "tools/serve/facts.h"
#include "tools/serve/totals.h"

namespace penstock::tools {

struct NodeView {
  const NodeFacts& facts;
  const Totals& totals;
  core::LookResult processes;
  unsigned segments_refused = 0;  // Statistics that are damaged, have another format, or exceed a limit.
  std::uint64_t looks = 0;
  double look_seconds = 0;
  double look_timestamp = 0;          // Seconds since 1970.
  std::uint64_t textfile_errors = 0;  // Times that the file could not be written.
  std::uint64_t feature_file_errors = 0;
};

std::string metrics_text(const NodeView& node, MetricFormat format);

}  // namespace penstock::tools
