// SPDX-License-Identifier: Apache-2.0

// How long it takes to get chunks, by what gets took lately: a time for each get and one for each of its bytes.
#pragma once

#include <cstdint>
#include <optional>

#include "base/mutex.h"

namespace penstock::kv {

// Any thread.
class Pace {
 public:
  // A get of one or more chunks, of so many bytes in all.
  void add(std::uint64_t bytes, double seconds) EXCLUDES(mutex_);
  // Nothing as long as nothing was added.
  std::optional<double> seconds(std::uint64_t bytes) const EXCLUDES(mutex_);

 private:
  // Sums over all gets, the older the less: weights, and weighted sizes and times.
  struct Sums {
    double weight = 0, bytes = 0, seconds = 0, bytes_squared = 0, bytes_by_seconds = 0;
  };

  mutable core::Mutex mutex_;
  Sums sums_ GUARDED_BY(mutex_);
};

}  // namespace penstock::kv
