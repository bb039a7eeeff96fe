// SPDX-License-Identifier: Apache-2.0

#include "tools/common/request_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "stats/layout.h"

namespace penstock::tools {
namespace {

// Adds up the buckets below each of the ends, and those behind the last end.
template <std::size_t kEnds, typename End>
std::array<std::uint64_t, kEnds + 1> joined(const std::vector<std::uint64_t>& buckets,
                                            const std::array<unsigned, kEnds>& powers, End end_of) {
  std::array<std::uint64_t, kEnds + 1> sums{};
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= kEnds; ++i) {
    const std::size_t end = i < kEnds ? std::min<std::size_t>(end_of(powers[i]), buckets.size()) : buckets.size();
    for (; begin < end; ++begin) sums[i] += buckets[begin];
  }
  return sums;
}

template <typename Counts, typename Bound>
void add_histogram(Exposition& page, const Labels& labels, const Counts& counts, Bound bound_of, auto sum) {
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    Labels with = labels;
    with.emplace_back("le", i + 1 < counts.size() ? bound_of(i) : "+Inf");
    page.add(with, all += counts[i], "_bucket");
  }
  page.add(labels, sum, "_sum");
  page.add(labels, all, "_count");
}

}  // namespace

RequestCounts request_counts(const core::StatsSnapshot& session, const core::StatsHistogram& histogram) {
  RequestCounts counts;
  // Bucket i holds the sizes that have i bits: all below 2^i.
  counts.sizes = joined(histogram.sizes, RequestCounts::kSizePowers, [](unsigned power) { return power + 1; });
  counts.latencies = joined(histogram.latencies, RequestCounts::kTimePowers,
                            [](unsigned power) { return core::latency_bucket(std::uint64_t{1} << power); });
  for (const core::StatsRow& row : session.rows) {
    if (row.path == histogram.path && row.op == histogram.op) counts.bytes += row.bytes;
  }
  counts.nanoseconds = histogram.latency_sum;
  counts.failures = histogram.failures;
  return counts;
}

void add_sizes(Exposition& page, const Labels& labels, const RequestCounts& counts) {
  const auto bound = [](std::size_t i) {
    return fmt::format("{}", (std::uint64_t{1} << RequestCounts::kSizePowers[i]) - 1);
  };
  add_histogram(page, labels, counts.sizes, bound, counts.bytes);
}

void add_latencies(Exposition& page, const Labels& labels, const RequestCounts& counts) {
  if (std::accumulate(counts.latencies.begin(), counts.latencies.end(), std::uint64_t{0}) == 0) return;
  const auto bound = [](std::size_t i) {
    return fmt::format("{:.9g}", static_cast<double>(std::uint64_t{1} << RequestCounts::kTimePowers[i]) / 1e9);
  };
  add_histogram(page, labels, counts.latencies, bound, static_cast<double>(counts.nanoseconds) / 1e9);
}

}  // namespace penstock::tools
