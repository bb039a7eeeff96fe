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
  bool enter() {
    std::atomic<std::uint32_t>& inside = shard();
    inside.fetch_add(1);  // Counted before the check, so that either close() sees us or we see close().
    if (open_.load()) return true;
    leave();
    return false;
  }
  // Call it on the thread that entered.
  void leave() {
    std::atomic<std::uint32_t>& inside = shard();
    inside.fetch_sub(1);
    if (!open_.load()) inside.notify_all();
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
  std::atomic<std::uint32_t>& shard() { return shards_[thread_number() % shards_.size()].inside; }

  std::atomic<bool> open_{false};
  std::array<Shard, 16> shards_;
};

}  // namespace penstock::core
