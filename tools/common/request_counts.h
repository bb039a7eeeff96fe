// SPDX-License-Identifier: Apache-2.0

// Sizes and latencies of requests, in the few buckets of a page of metrics, made from the many that a session counts.
// Pure.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "stats/reader.h"
#include "tools/common/exposition.h"

namespace penstock::tools {

struct RequestCounts {
  // Upper bounds: powers of two of bytes from 4 KiB to 1 GiB, and of nanoseconds from a microsecond to 17 seconds.
  static constexpr std::array<unsigned, 10> kSizePowers = {12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
  static constexpr std::array<unsigned, 16> kTimePowers = {10, 12, 13, 14, 15, 16, 17, 18,
                                                           19, 20, 22, 24, 26, 28, 30, 34};
  // The last element of each array counts all values above the last bound.
  std::array<std::uint64_t, kSizePowers.size() + 1> sizes{};
  std::array<std::uint64_t, kTimePowers.size() + 1> latencies{};
  std::uint64_t bytes = 0;
  std::uint64_t nanoseconds = 0;
  std::uint64_t failures = 0;
};

// Requests by path and operation.
using Requests = std::map<std::pair<std::string, core::Op>, RequestCounts>;

RequestCounts request_counts(const core::StatsSnapshot& session, const core::StatsHistogram& histogram);

// Adds the samples of one histogram; its family must have been begun.
void add_sizes(Exposition& page, const Labels& labels, const RequestCounts& counts);
// Adds nothing if no latency was measured.
void add_latencies(Exposition& page, const Labels& labels, const RequestCounts& counts);

}  // namespace penstock::tools
