// SPDX-License-Identifier: Apache-2.0

// Predicts the time of a get from recent gets: a time per get plus a time per byte.
#pragma once

#include <cstdint>
#include <optional>

#include "base/mutex.h"

namespace penstock::kv {

// Any thread.
class Pace {
 public:
  // Adds a get of one or more chunks, with `bytes` bytes in total.
  void add(std::uint64_t bytes, double seconds) EXCLUDES(mutex_);
  // Nothing until a get was added.
  std::optional<double> seconds(std::uint64_t bytes) const EXCLUDES(mutex_);

 private:
  // Sums over all gets, with older ones weighted less: weights, and weighted sizes and times.
  struct Sums {
    double weight = 0, bytes = 0, seconds = 0, bytes_squared = 0, bytes_by_seconds = 0;
  };

  mutable core::Mutex mutex_;
  Sums sums_ GUARDED_BY(mutex_);
};

}  // namespace penstock::kv
