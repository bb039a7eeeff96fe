// SPDX-License-Identifier: Apache-2.0

// The seam to time, for code that decides by it: a test moves a ManualClock (test/fakes) where it would have to sleep.
// Objects take a clock by reference, and it outlives them. Code that only measures for a report, or waits for a
// wake-up, asks the kernel itself. Nothing on the steady path of a small request reads a clock.
#pragma once

#include <chrono>

namespace penstock::core {

class Clock {
 public:
  virtual ~Clock() = default;
  // Since some moment; never goes back. Any thread.
  virtual std::chrono::nanoseconds now() const = 0;
};

class SystemClock final : public Clock {
 public:
  std::chrono::nanoseconds now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

inline const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

}  // namespace penstock::core
