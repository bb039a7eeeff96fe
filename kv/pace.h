// SPDX-License-Identifier: Apache-2.0

// Predicts the time of a get from recent gets: a time per get, one per byte, and one per byte of other requests that
// were under way when it began.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/mutex.h"

namespace penstock::kv {

// A request's bytes, counted as under way while this lives.
class UnderWay {
 public:
  UnderWay(std::atomic<std::uint64_t>& all, std::uint64_t bytes)
      : all_(all), bytes_(bytes), before_(all.fetch_add(bytes, std::memory_order_relaxed)) {}
  ~UnderWay() { all_.fetch_sub(bytes_, std::memory_order_relaxed); }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  std::uint64_t before() const { return before_; }  // The bytes of others that were under way when this request began.

 private:
  std::atomic<std::uint64_t>& all_;
  const std::uint64_t bytes_, before_;
};

// Any thread.
class Pace {
 public:
  // Adds a get of one or more chunks, with `bytes` bytes in total, that began while `queued` bytes of others were under
  // way.
  void add(std::uint64_t bytes, std::uint64_t queued, double seconds) EXCLUDES(mutex_);
  // Predicts a get that begins while so many are under way. Nothing until a get was added.
  std::optional<double> seconds(std::uint64_t bytes, std::uint64_t queued) const EXCLUDES(mutex_);

 private:
  // Sums over all gets, with older ones weighted less: weights, and weighted sizes, queues, times and products.
  struct Sums {
    double weight = 0, bytes = 0, queued = 0, seconds = 0, bytes_squared = 0, queued_squared = 0, bytes_by_queued = 0,
           bytes_by_seconds = 0, queued_by_seconds = 0;
  };
  static double each_queued(const Sums& sums);
  static double of_size(const Sums& sums, double bytes);

  mutable core::Mutex mutex_;
  Sums sums_ GUARDED_BY(mutex_);
};

}  // namespace penstock::kv
