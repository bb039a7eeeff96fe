// SPDX-License-Identifier: Apache-2.0

// Numbers and words that the reports of bench, as text, tables and JSON, have in common.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/report.h"

namespace penstock::tools {

// In microseconds.
struct Latency {
  double least, mean, p50, p90, p99, p99_9, most;
};
Latency latency_of(const Tally& tally);

double per_second(std::uint64_t amount, double seconds);
double cpu_per_gigabyte(const JobResult& result);

// What the environment, or a side of a comparison, sets for the library, since it changes the result.
std::vector<std::string> library_settings(const BenchSettings& settings);

std::vector<Warning> warnings_of(const BenchOutcome& outcome);

}  // namespace penstock::tools
