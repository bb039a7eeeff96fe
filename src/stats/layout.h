// SPDX-License-Identifier: Apache-2.0

// The shared-memory segment of a session's statistics, byte by byte. counters.cc and cufile_counters.cc write it;
// reader.cc reads the segment of another process, perhaps of another version. Plain numbers only; this header checks
// nothing.
//
// The header says how many paths, reasons and buckets there are and where each part begins, so that a version with more
// of them needs no new format. Every part is zero as long as nothing was counted.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace penstock::core {

constexpr char kStatsName[] = "penstock-stats";  // The name of the memfd.
constexpr char kStatsMagic[8] = {'P', 'N', 'S', 'T', 'A', 'T', 'S', '\0'};
constexpr std::uint32_t kStatsVersion = 1;

constexpr std::uint32_t kStatsHasDirectBytes = 1;
constexpr std::uint32_t kStatsHasSaves = 2;
constexpr std::uint32_t kStatsHasFailures = 4;

constexpr unsigned kStatsShards = 16;
constexpr unsigned kSizeBuckets = 48;
constexpr unsigned kLatencyBuckets = 144;
// The costs of checkpoints: saves, bytes, then nanoseconds, in the order of penstock_save_costs.
constexpr unsigned kSaveNumbers = 8;
using SaveNumbers = std::array<std::uint64_t, kSaveNumbers>;

struct StatsLabel {
  char text[32];  // Ends with a zero.
};

struct StatsHeader {
  char magic[8];  // Written last.
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t segment_bytes;
  std::int64_t pid;         // In the process's own PID namespace.
  std::uint64_t opened_ns;  // CLOCK_REALTIME.
  StatsLabel library;       // "0.1.0"
  std::uint32_t paths;
  std::uint32_t reasons;
  std::uint32_t shards;
  std::uint32_t size_buckets;
  std::uint32_t latency_buckets;
  std::uint32_t features;   // Bits kStatsHas...; 0 in segments of 0.1.0 and earlier.
  std::uint64_t labels_at;  // The StatsLabel of every path, then of every reason.
  std::uint64_t shards_at;  // Each shard has cells, size histograms, latency histograms, sums of latencies, and those
                            // of direct bytes, costs of saves and failures that `features` names.
  std::uint64_t shard_bytes;
  std::uint64_t cufile_at;  // A CufileSection.
  std::uint64_t cufile_bytes;
};
static_assert(sizeof(StatsHeader) == 136);

// [path][reason][op]
struct StatsCell {
  std::uint64_t bytes;
  std::uint64_t operations;
};

// The bucket of a size: bucket i counts the sizes of i significant bits: 0, 1, 2 to 3, 4 to 7, ...
constexpr unsigned size_bucket(std::uint64_t bytes) {
  const auto bits = static_cast<unsigned>(std::bit_width(bytes));
  return bits < kSizeBuckets ? bits : kSizeBuckets - 1;
}

// The bucket of a latency in nanoseconds: four buckets for each power of two, up to two minutes.
constexpr unsigned latency_bucket(std::uint64_t nanoseconds) {
  if (nanoseconds < 4) return static_cast<unsigned>(nanoseconds);
  const auto shift = static_cast<unsigned>(std::bit_width(nanoseconds)) - 3;
  const std::uint64_t bucket = 4 * shift + (nanoseconds >> shift);
  return static_cast<unsigned>(bucket < kLatencyBuckets ? bucket : kLatencyBuckets - 1);
}
// The smallest value that a bucket counts.
constexpr std::uint64_t latency_floor(unsigned bucket) {
  if (bucket < 8) return bucket;
  const unsigned shift = bucket / 4 - 1;
  return (std::uint64_t{4} + bucket % 4) << shift;
}

// All threads and processes access numbers in a segment with these functions only.
template <typename T>
T load_shared(const T& number) {
  return std::atomic_ref<T>(const_cast<T&>(number)).load(std::memory_order_relaxed);
}
template <typename T>
void store_shared(T& number, T value) {
  std::atomic_ref<T>(number).store(value, std::memory_order_relaxed);
}
inline void add_shared(std::uint64_t& number, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(number).fetch_add(value, std::memory_order_relaxed);
}

}  // namespace penstock::core
