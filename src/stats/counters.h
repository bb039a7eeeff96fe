// Bytes and operations by path and by the reason that no better path was taken. Every thread adds to a shard of its
// own, so counting costs no shared cache line; readers add the shards up. Thread-safe, without locks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/io.h"
#include "path/verdict.h"

namespace penstock::core {

struct Count {
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;
};

class Counters {
 public:
  void add(PathId path, Reason reason, Op op, std::uint64_t bytes);
  Count total(PathId path, Reason reason, Op op) const;

 private:
  static constexpr unsigned kShards = 16;
  struct Cell {
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> operations{0};
  };
  struct alignas(64) Shard {
    Cell cells[kPathCount][kReasonCount][2];
  };
  std::array<Shard, kShards> shards_;
};

// A small number that differs between threads as long as there are few of them.
unsigned thread_number();

}  // namespace penstock::core
