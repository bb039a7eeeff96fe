// SPDX-License-Identifier: Apache-2.0

// Time that stands still until a test moves it. Thread-safe.
#pragma once

#include <atomic>

#include "base/clock.h"

namespace penstock::core {

class ManualClock final : public Clock {
 public:
  std::chrono::nanoseconds now() const override { return std::chrono::nanoseconds(now_.load()); }
  void advance(std::chrono::nanoseconds by) { now_ += by.count(); }

 private:
  std::atomic<std::chrono::nanoseconds::rep> now_{std::chrono::nanoseconds(std::chrono::hours(1)).count()};
};

}  // namespace penstock::core
