// SPDX-License-Identifier: Apache-2.0

// The time that a transfer takes for itself while others run beside it: they use the same CPUs and the same link, so
// that each takes as many times longer as there are transfers. Costs are learned from each one's share. Before, four
// reads of 48 MiB at once seemed to be bounced at a quarter of the speed, and so registered their pages, at 18 GB/s,
// where bouncing them gives 44 (one H200, 16 CPUs, 2026-11-29).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace penstock::core {

// Counts one active transfer as long as it lives.
class ActiveTransfer {
 public:
  explicit ActiveTransfer(std::atomic<unsigned>& count) : count_(count) {
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  ~ActiveTransfer() { count_.fetch_sub(1, std::memory_order_relaxed); }
  ActiveTransfer(const ActiveTransfer&) = delete;
  ActiveTransfer& operator=(const ActiveTransfer&) = delete;

 private:
  std::atomic<unsigned>& count_;
};

// Takes the time of one of the active transfers of a device.
class TransferTime {
 public:
  explicit TransferTime(const std::atomic<unsigned>& active) : active_(active), at_first_(active.load()) {}
  std::uint64_t wall_ns() const {
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - start_).count());
  }
  // The transfer's share of a wall time, which it would take alone. How many there were is the mean of the first and
  // the last moment.
  std::uint64_t share_of(std::uint64_t wall_ns) const {
    return wall_ns / std::max((at_first_ + active_.load() + 1) / 2, 1u);
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const std::atomic<unsigned>& active_;
  const unsigned at_first_;  // The number of transfers at its beginning.
};

}  // namespace penstock::core
