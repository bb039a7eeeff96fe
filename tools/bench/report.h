// SPDX-License-Identifier: Apache-2.0

// What bench says about a finished measurement: for people, and as JSON.
#pragma once

#include <string>

#include "tools/bench/measure.h"
#include "tools/bench/settings.h"
#include "tools/bench/warnings.h"
#include "tools/common/context.h"

namespace penstock::tools {

struct BenchOutcome {
  BenchSettings settings;
  std::vector<std::string> files;  // All that were read, by name.
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // Of all files.
  std::uint64_t block_count = 0;
  std::uint32_t direct_align = 0;
  std::string not_direct;  // Why O_DIRECT is not direct on the first file, and what to do; "" where nothing says so.
  std::string file_system;
  std::string device;  // The line for people; "" where no device takes part.
  Json device_facts;
  Measured measured;
};

// What is known before it is measured.
BenchOutcome outcome_of(const Bench& bench);

// Bytes that travelled otherwise than by `path`.
std::uint64_t bytes_not_by(const Tally& tally, int path);

void print_settings(const BenchOutcome& outcome);
void print_result(const BenchOutcome& outcome);
Json bench_json(const BenchOutcome& outcome);

}  // namespace penstock::tools
