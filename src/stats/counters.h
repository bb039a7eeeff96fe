// SPDX-License-Identifier: Apache-2.0

// The counters of a session: bytes, operations, sizes and latencies by path and by the reason why no better path was
// taken, and cuFile's own counts. All of them are in a segment that other processes can read (layout.h). Every thread
// adds to a shard of its own, so counting costs no shared cache line; readers add the shards up. Thread-safe, without
// locks. A forked child counts nothing: the segment is its parent's.
#pragma once

#include <cstdint>
#include <span>

#include "base/process.h"
#include "core/io.h"
#include "core/verdict.h"
#include "stats/cufile_counters.h"
#include "stats/layout.h"
#include "stats/segment.h"
#include "stats/thread_number.h"

namespace penstock::core {

struct Count {
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;
};

class Counters {
 public:
  Counters();

  void add(PathId path, Reason reason, Op op, std::uint64_t bytes);
  // Counts requests of which only the sum is known: they have no sizes.
  void add_sum(PathId path, Reason reason, Op op, const Count& sum);
  // Counts bytes that a path moved by O_DIRECT. Call add() for them as well, before or after.
  void add_direct(PathId path, Op op, std::uint64_t bytes);
  // Counts a request that ended with an error. Call add() for it as well, before or after.
  void add_failure(PathId path, Op op);
  // Counts the latency of a measured request. Call add() for it as well, before or after.
  void add_latency(PathId path, Op op, std::uint64_t nanoseconds) const;
  // Adds what a checkpoint cost its program.
  void add_save(const SaveNumbers& costs) const;
  Count total(PathId path, Reason reason, Op op) const;
  std::uint64_t direct_bytes() const;  // The sum over all paths, reads and writes.
  std::uint64_t failures(PathId path, Op op) const;

  CufileCounters& cufile() const { return cufile_; }
  // Ok if other processes can read the counters; else the reason why not.
  const Status& sharing() const { return segment_.sharing(); }

 private:
  struct alignas(64) Shard {
    StatsCell cells[kPathCount][kReasonCount][2];
    std::uint64_t sizes[kPathCount][2][kSizeBuckets];
    std::uint64_t latencies[kPathCount][2][kLatencyBuckets];
    std::uint64_t latency_sums[kPathCount][2];
    std::uint64_t direct_bytes[kPathCount][2];
    std::uint64_t saves[kSaveNumbers];
    std::uint64_t failures[kPathCount][2];
  };
  struct Layout {
    StatsHeader header;
    StatsLabel labels[kPathCount + kReasonCount];
    Shard shards[kStatsShards];
    CufileSection cufile;
  };

  Layout& layout() const { return *reinterpret_cast<Layout*>(segment_.data()); }
  Shard& own_shard() const;
  std::span<const Shard> used_shards() const;

  const std::uint32_t forks_ = fork_count();
  Segment segment_{kStatsName, sizeof(Layout)};
  mutable CufileCounters cufile_{layout().cufile};  // Mutable: a const session counts, too.
};

}  // namespace penstock::core
