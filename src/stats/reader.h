// SPDX-License-Identifier: Apache-2.0

// Interprets the bytes of a statistics segment that another process wrote: perhaps another version of Penstock, perhaps
// a program that only pretends. Every offset and count is checked against the segment; if one does not fit, the segment
// is refused with a reason. For the tools; the library itself reads no segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "core/io.h"
#include "stats/cufile_counters.h"
#include "stats/layout.h"

namespace penstock::core {

// Bytes and operations of one path for one reason, if there are any.
struct StatsRow {
  std::string path;
  std::string reason;
  Op op = Op::read;
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;
};

// The sizes and latencies of a path's requests; the buckets are those of layout.h.
struct StatsHistogram {
  std::string path;
  Op op = Op::read;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> latencies;  // All zero if nothing was measured.
  std::uint64_t latency_sum = 0;         // Nanoseconds.
  std::uint64_t direct_bytes = 0;        // Bytes that the path moved around the page cache; see StatsSnapshot.
  std::uint64_t failures = 0;            // Requests that ended with an error; 0 of an earlier version.
};

struct StatsSnapshot {
  std::uint64_t id = 0;  // Differs between sessions of a process, and stays the same as long as they live.
  std::int64_t pid = 0;  // In the process's own PID namespace, which in a container is not ours.
  std::uint64_t opened_ns = 0;
  std::string library;
  std::vector<StatsRow> rows;
  std::vector<StatsHistogram> histograms;
  bool has_direct_bytes = false;  // False for processes of an earlier version, which do not count them.
  SaveNumbers saves{};            // The costs of checkpoints; zero of an earlier version.
  CufileTotals cufile;
};

// The bytes begin at a multiple of 64, like a mapping; they may change meanwhile. Fails with `unsupported` for another
// format, with `bad_setting` for damaged data.
Result<StatsSnapshot> read_segment(std::span<const std::byte> segment);

// The nanoseconds that the fraction `quantile` of all requests did not exceed; 0 if there were none.
std::uint64_t latency_quantile(std::span<const std::uint64_t> latencies, double quantile);

}  // namespace penstock::core
