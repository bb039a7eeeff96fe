// SPDX-License-Identifier: Apache-2.0

// Lets calls in while the driver is open, and closing wait until they are out. Entering takes no lock and touches a
// counter of the thread's own shard.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "stats/thread_number.h"

namespace penstock::core {

class Gate {
 public:
  // These two are a part of every call, and are inlined whatever else the compiler has in hand. Without that they and
  // CufileDriver::Use took 32 of a 4 KiB read's 1,728 instructions (callgrind, gcc 12, 2026-11-28).
  [[gnu::always_inline]] bool enter() {
    std::atomic<std::uint32_t>& inside = shard();
    inside.fetch_add(1);  // Counted before the check, so that either close() sees us or we see close().
    if (open_.load()) [[likely]]
      return true;
    turn_away(inside);
    return false;
  }
  // Call it on the thread that entered.
  [[gnu::always_inline]] void leave() {
    std::atomic<std::uint32_t>& inside = shard();
    inside.fetch_sub(1);
    if (!open_.load()) [[unlikely]]
      wake_closer(inside);
  }
  void open() { open_.store(true); }
  // In a forked child: the threads inside were the parent's.
  void forget() {
    open_.store(false);
    for (Shard& shard : shards_) shard.inside.store(0);
  }
  void close() {
    open_.store(false);
    for (Shard& shard : shards_) {
      for (std::uint32_t inside = shard.inside.load(); inside != 0; inside = shard.inside.load()) {
        shard.inside.wait(inside);
      }
    }
  }

 private:
  struct alignas(64) Shard {
    std::atomic<std::uint32_t> inside{0};
  };
  [[gnu::noinline, gnu::cold]] static void wake_closer(std::atomic<std::uint32_t>& inside) { inside.notify_all(); }
  [[gnu::noinline, gnu::cold]] static void turn_away(std::atomic<std::uint32_t>& inside) {
    inside.fetch_sub(1);
    inside.notify_all();
  }
  std::atomic<std::uint32_t>& shard() { return shards_[thread_number() % shards_.size()].inside; }

  std::atomic<bool> open_{false};
  std::array<Shard, 16> shards_;
};

}  // namespace penstock::core
