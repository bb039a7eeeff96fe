// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/words.h"

#include <fmt/format.h>

#include "facts/environment.h"
#include "tools/common/units.h"

namespace penstock::tools {

Latency latency_of(const Tally& tally) {
  if (tally.operations == 0) return {};
  const auto at = [&](double quantile) { return static_cast<double>(tally.latency_ns.quantile(quantile)) / 1e3; };
  return {static_cast<double>(tally.latency_least_ns) / 1e3,
          static_cast<double>(tally.latency_sum_ns) / 1e3 / static_cast<double>(tally.operations),
          at(0.5),
          at(0.9),
          at(0.99),
          at(0.999),
          static_cast<double>(tally.latency_most_ns) / 1e3};
}

double per_second(std::uint64_t amount, double seconds) {
  return seconds > 0 ? static_cast<double>(amount) / seconds : 0;
}

double cpu_per_gigabyte(const JobResult& result) {
  return result.tally.bytes > 0 ? result.cpu_seconds / gigabytes(result.tally.bytes) : 0;
}

std::vector<std::string> library_settings(const BenchSettings& settings) {
  std::vector<std::string> all;
  for (const auto& [name, value] : facts::environment_settings().known)
    all.push_back(fmt::format("{}={}", name, value));
  for (const auto& [name, value] : settings.library) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

std::vector<Warning> warnings_of(const BenchOutcome& outcome) {
  const Tally& tally = outcome.measured.result.tally;
  Evidence evidence;
  evidence.bytes = tally.bytes;
  evidence.direct_bytes = tally.direct_bytes;
  evidence.cached_bytes = tally.cached_bytes;
  evidence.drive_bytes = outcome.measured.drive_bytes;
  evidence.block_count = outcome.block_count;
  evidence.direct_align = outcome.direct_align;
  evidence.not_direct = outcome.not_direct;
  evidence.share_of_others = outcome.measured.share_of_others();
  evidence.harm_by_others = outcome.measured.harm_by_others();
  evidence.estimate = outcome.measured.rate();
  return warnings_of(outcome.settings, evidence);
}

}  // namespace penstock::tools
