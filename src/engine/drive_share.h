// SPDX-License-Identifier: Apache-2.0

// The bytes that long requests may have under way on one drive while short ones come. A short request waits behind all
// that the drive was given before it. So as long as short ones came lately, long ones together have no more under way
// there than the drive moves in a moment; at other times they have as many as they like. Both are direct I/O of one
// session: nothing is known of other sessions, and of what the page cache writes. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"

namespace penstock::core {

class DriveShare {
 public:
  explicit DriveShare(const Clock& time = system_clock()) : time_(time) {}

  // Long requests have some of it, so that short ones have to be noted.
  bool is_taken() const { return under_way_.load(std::memory_order_relaxed) > 0; }
  // A short request begins.
  void note_short() { short_at_.store(time_.now().count(), std::memory_order_relaxed); }

  // A long request is about to move so many bytes. False if it has to wait for others.
  bool try_take(std::uint64_t bytes);
  // Waits until it may. The caller has none under way.
  void take(std::uint64_t bytes) EXCLUDES(mutex_);
  // They have been moved, or will not be.
  void give_back(std::uint64_t bytes) EXCLUDES(mutex_);

 private:
  std::uint64_t bytes_max(std::int64_t now);

  const Clock& time_;
  std::atomic<std::int64_t> short_at_{INT64_MIN / 2};  // Nanoseconds of the clock, as window_at_ is.
  std::atomic<std::uint64_t> under_way_{0};
  // How fast the drive is: the bytes that were given back since a moment, and the bound by those of the time before.
  std::atomic<std::int64_t> window_at_{0};
  std::atomic<std::uint64_t> moved_{0}, bound_{0};
  std::atomic<unsigned> waiting_{0};
  Mutex mutex_;
  ConditionVariable changed_;
};

// Counts what one thread has taken, for chunks of one size, and gives back the rest at its end. Without a drive all may
// begin.
class TakenShare {
 public:
  TakenShare(DriveShare* drive, std::uint64_t chunk) : drive_(drive), chunk_(chunk) {}
  ~TakenShare() { give_back(chunks_); }
  TakenShare(const TakenShare&) = delete;
  TakenShare& operator=(const TakenShare&) = delete;

  // True if another chunk may begin. A thread that has none under way waits until it may.
  bool take() {
    if (drive_ != nullptr && chunks_ == 0) drive_->take(chunk_);
    else if (drive_ != nullptr && !drive_->try_take(chunk_)) return false;
    ++chunks_;
    return true;
  }
  void give_back(unsigned chunks) {
    chunks_ -= chunks;
    if (drive_ != nullptr && chunks > 0) drive_->give_back(chunks * chunk_);
  }

 private:
  DriveShare* const drive_;
  const std::uint64_t chunk_;
  unsigned chunks_ = 0;
};

}  // namespace penstock::core
