// SPDX-License-Identifier: Apache-2.0

// Reports a finished measurement of bench as text and as JSON. `penstock-model` reads of the JSON
// settings.{rw,block_size,threads,depth}, result.{bytes,seconds,direct_bytes,cached_bytes} and bytes_by_path; `bench
// --compare` reads result.rate and result.with_fsync.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/measure.h"
#include "tools/bench/settings.h"
#include "tools/bench/warnings.h"
#include "tools/common/context.h"

namespace penstock::tools {

struct BenchOutcome {
  BenchSettings settings;
  std::vector<std::string> files;  // The names of all files that were read.
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // The sum of all files' sizes.
  std::uint64_t block_count = 0;
  std::uint32_t direct_align = 0;
  std::string not_direct;  // Why O_DIRECT is not direct on the first file, with a remedy; or "".
  std::string file_system;
  std::string device;  // The line for people; "" if no device takes part.
  Json device_facts;
  Measured measured;
};

// Collects the facts that are known before the measurement.
BenchOutcome outcome_of(const Bench& bench);

// The bytes that did not go by `path`.
std::uint64_t bytes_not_by(const Tally& tally, int path);

void print_settings(const BenchOutcome& outcome);
// Tells besides which paths serve this request.
void print_result(const BenchOutcome& outcome, const std::vector<std::string>& usable_paths);
Json bench_json(const BenchOutcome& outcome);

// Numbers and words that all forms of the report share.

// Latencies in microseconds.
struct Latency {
  double least, mean, p50, p90, p99, p99_9, most;
};
Latency latency_of(const Tally& tally);

double per_second(std::uint64_t amount, double seconds);
double cpu_per_gigabyte(const JobResult& result);
// Interrupts of the whole machine for each GB; nothing if the kernel does not count them, or no byte moved.
std::optional<double> interrupts_of(const Measured& measured);

// The library's settings from the environment, or from one side of a comparison. The report shows them because they
// change the result.
std::vector<std::string> library_settings(const BenchSettings& settings);

std::vector<Warning> warnings_of(const BenchOutcome& outcome);

}  // namespace penstock::tools
