// SPDX-License-Identifier: Apache-2.0

#include "stats/counters.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "path/reasons.h"
#include "stats/thread_number.h"

namespace penstock::core {
namespace {

void set_label(StatsLabel& label, const char* text) { std::snprintf(label.text, sizeof label.text, "%s", text); }

std::uint64_t wall_clock() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

Counters::Counters() {
  Layout& all = layout();
  for (unsigned i = 0; i < kPathCount; ++i) set_label(all.labels[i], path_name(static_cast<PathId>(i)));
  for (unsigned i = 0; i < kReasonCount; ++i) {
    const auto reason = static_cast<Reason>(i);
    if (*reason_sentence(reason) != '\0') set_label(all.labels[kPathCount + i], reason_name(reason));
  }
  StatsHeader& header = all.header;
  header.version = kStatsVersion;
  header.header_bytes = sizeof header;
  header.segment_bytes = sizeof all;
  header.pid = ::getpid();
  header.opened_ns = wall_clock();
  set_label(header.library, PENSTOCK_VERSION);
  header.paths = kPathCount;
  header.reasons = kReasonCount;
  header.shards = kStatsShards;
  header.size_buckets = kSizeBuckets;
  header.latency_buckets = kLatencyBuckets;
  header.features = kStatsHasDirectBytes | kStatsHasSaves | kStatsHasFailures;
  header.labels_at = offsetof(Layout, labels);
  header.shards_at = offsetof(Layout, shards);
  header.shard_bytes = sizeof(Shard);
  header.cufile_at = offsetof(Layout, cufile);
  header.cufile_bytes = sizeof(CufileSection);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(header.magic, kStatsMagic, sizeof header.magic);
}

Counters::Shard& Counters::own_shard() const { return layout().shards[thread_number() % kStatsShards]; }

// Others have no memory yet, and to read them would take some.
std::span<const Counters::Shard> Counters::used_shards() const {
  return std::span(layout().shards).first(std::min(threads_numbered.load(std::memory_order_relaxed), kStatsShards));
}

void Counters::add(PathId path, Reason reason, Op op, std::uint64_t bytes) {
  if (forks_ != fork_count()) return;
  const auto i = static_cast<unsigned>(path), j = static_cast<unsigned>(op);
  Shard& shard = own_shard();
  StatsCell& cell = shard.cells[i][static_cast<unsigned>(reason)][j];
  add_shared(cell.bytes, bytes);
  add_shared(cell.operations, 1);
  add_shared(shard.sizes[i][j][size_bucket(bytes)], 1);
}

void Counters::add_sum(PathId path, Reason reason, Op op, const Count& sum) {
  if (forks_ != fork_count()) return;
  StatsCell& cell =
      own_shard().cells[static_cast<unsigned>(path)][static_cast<unsigned>(reason)][static_cast<unsigned>(op)];
  add_shared(cell.bytes, sum.bytes);
  add_shared(cell.operations, sum.operations);
}

void Counters::add_direct(PathId path, Op op, std::uint64_t bytes) {
  if (forks_ != fork_count()) return;
  add_shared(own_shard().direct_bytes[static_cast<unsigned>(path)][static_cast<unsigned>(op)], bytes);
}

void Counters::add_failure(PathId path, Op op) {
  if (forks_ != fork_count()) return;
  add_shared(own_shard().failures[static_cast<unsigned>(path)][static_cast<unsigned>(op)], 1);
}

void Counters::add_latency(PathId path, Op op, std::uint64_t nanoseconds) const {
  if (forks_ != fork_count()) return;
  const auto i = static_cast<unsigned>(path), j = static_cast<unsigned>(op);
  Shard& shard = own_shard();
  add_shared(shard.latencies[i][j][latency_bucket(nanoseconds)], 1);
  add_shared(shard.latency_sums[i][j], nanoseconds);
}

void Counters::add_save(const SaveNumbers& costs) const {
  if (forks_ != fork_count()) return;
  Shard& shard = own_shard();
  for (unsigned i = 0; i < kSaveNumbers; ++i) add_shared(shard.saves[i], costs[i]);
}

Count Counters::total(PathId path, Reason reason, Op op) const {
  Count sum;
  for (const Shard& shard : used_shards()) {
    const StatsCell& cell =
        shard.cells[static_cast<unsigned>(path)][static_cast<unsigned>(reason)][static_cast<unsigned>(op)];
    sum.bytes += load_shared(cell.bytes);
    sum.operations += load_shared(cell.operations);
  }
  return sum;
}

std::uint64_t Counters::direct_bytes() const {
  std::uint64_t sum = 0;
  for (const Shard& shard : used_shards()) {
    for (const auto& path : shard.direct_bytes) sum += load_shared(path[0]) + load_shared(path[1]);
  }
  return sum;
}

std::uint64_t Counters::failures(PathId path, Op op) const {
  std::uint64_t sum = 0;
  for (const Shard& shard : used_shards()) {
    sum += load_shared(shard.failures[static_cast<unsigned>(path)][static_cast<unsigned>(op)]);
  }
  return sum;
}

}  // namespace penstock::core
