// SPDX-License-Identifier: Apache-2.0

// The report of bench on a finished measurement: for people, and as JSON, of which `penstock-model` reads
// settings.{rw,block_size,threads,depth}, result.{bytes,seconds,direct_bytes,cached_bytes} and bytes_by_path, and
// `bench --compare` result.rate and result.with_fsync.
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
  std::uint64_t size = 0;  // All files'.
  std::uint64_t block_count = 0;
  std::uint32_t direct_align = 0;
  std::string not_direct;  // Why O_DIRECT is not direct on the first file, and its remedy; or "".
  std::string file_system;
  std::string device;  // The line for people; "" if no device takes part.
  Json device_facts;
  Measured measured;
};

// Fills in the facts that are known before the measurement.
BenchOutcome outcome_of(const Bench& bench);

// Bytes that travelled otherwise than by `path`.
std::uint64_t bytes_not_by(const Tally& tally, int path);

void print_settings(const BenchOutcome& outcome);
void print_result(const BenchOutcome& outcome);
Json bench_json(const BenchOutcome& outcome);

// Numbers and words that reports of all forms have in common.

// In microseconds.
struct Latency {
  double least, mean, p50, p90, p99, p99_9, most;
};
Latency latency_of(const Tally& tally);

double per_second(std::uint64_t amount, double seconds);
double cpu_per_gigabyte(const JobResult& result);

// The library's settings from the environment, or from a side of a comparison, since they change the result.
std::vector<std::string> library_settings(const BenchSettings& settings);

std::vector<Warning> warnings_of(const BenchOutcome& outcome);

}  // namespace penstock::tools
