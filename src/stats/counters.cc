#include "stats/counters.h"

namespace penstock::core {

unsigned thread_number() {
  static std::atomic<unsigned> next{0};
  thread_local const unsigned number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

void Counters::add(PathId path, Reason reason, Op op, std::uint64_t bytes) {
  Cell& cell = shards_[thread_number() % kShards]
                   .cells[static_cast<unsigned>(path)][static_cast<unsigned>(reason)][static_cast<unsigned>(op)];
  cell.bytes.fetch_add(bytes, std::memory_order_relaxed);
  cell.operations.fetch_add(1, std::memory_order_relaxed);
}

Count Counters::total(PathId path, Reason reason, Op op) const {
  Count sum;
  for (const Shard& shard : shards_) {
    const Cell& cell =
        shard.cells[static_cast<unsigned>(path)][static_cast<unsigned>(reason)][static_cast<unsigned>(op)];
    sum.bytes += cell.bytes.load(std::memory_order_relaxed);
    sum.operations += cell.operations.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace penstock::core
