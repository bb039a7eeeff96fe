// SPDX-License-Identifier: Apache-2.0

// What bench says about a finished job: for people, and as JSON.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/bench/settings.h"
#include "tools/common/context.h"
#include "tools/common/job.h"

namespace penstock::tools {

struct BenchOutcome {
  BenchSettings settings;
  Range range;
  std::string file_system;
  std::string device;  // The line for people; "" where no device takes part.
  Json device_facts;
  JobResult result;
  std::optional<double> flush_seconds;          // Of the fsync after a write.
  std::optional<std::uint64_t> verified_bytes;  // Compared, all of them right.
};

// Bytes that travelled otherwise than by `path`.
std::uint64_t bytes_not_by(const Tally& tally, int path);

void print_settings(const BenchOutcome& outcome);
void print_result(const BenchOutcome& outcome);
Json bench_json(const BenchOutcome& outcome);

}  // namespace penstock::tools
