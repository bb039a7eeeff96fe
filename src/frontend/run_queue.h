// SPDX-License-Identifier: Apache-2.0

// The jobs that wait for a thread, in the order in which they came. They are linked to one another, so that a job comes
// and goes without allocating. One thread at a time uses it; the executor guards it by its mutex.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "frontend/job.h"

namespace penstock::core {

class RunQueue {
 public:
  // Waking a thread takes as long as copying kShareBytes out of the page cache, or, if the device fetches the bytes, as
  // asking it for kFetchedShareBytes. Threads that ask beside each other wait for the driver's lock, and few threads
  // with long lists use a third of the CPU time: 128 reads of 4 KiB at once came to 1.04 million a second by both, at
  // 1.8 and 4.6 us each (H100, 2026-11-25).
  static constexpr std::uint64_t kShareBytes = 64u << 10;
  static constexpr std::uint64_t kFetchedShareBytes = 256u << 10;

  // Writes the number of its jobs into `size`, which other threads may read.
  explicit RunQueue(std::atomic<std::size_t>& size) : size_(size) {}

  Job* first() const { return first_; }
  static Job* next(const Job& job) { return job.next_; }
  std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  // The bytes of its jobs; a job that fits no queue counts as a few shares.
  std::uint64_t bytes() const { return bytes_; }
  static std::uint64_t bytes_of(const Job& job);
  // No job in it has an earlier deadline.
  TimePoint next_deadline() const { return next_deadline_; }

  void append(Job& job);
  void unlink(Job& job);
  // False if the job is not in it.
  bool withdraw(Job& job);
  // Unlinks the jobs whose deadline has passed, as a list in their order.
  Job* unlink_late();

 private:
  Job* first_ = nullptr;
  Job* last_ = nullptr;
  std::atomic<std::size_t>& size_;
  std::uint64_t bytes_ = 0;
  TimePoint next_deadline_ = kNoDeadline;
};

}  // namespace penstock::core
