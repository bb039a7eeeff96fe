// SPDX-License-Identifier: Apache-2.0

// The seam to time, for code that decides by it: where such code would make a test sleep, the test moves a ManualClock
// (test/fakes). Objects take a clock by reference, which must outlive them. Code that only measures for a report, or
// waits for a wake-up, reads the kernel's clock directly. The steady path of a small request reads no clock.
#pragma once

#include <chrono>

namespace penstock::core {

class Clock {
 public:
  // The time since some moment; it never goes back. Callable on any thread.
  virtual std::chrono::nanoseconds now() const = 0;

 protected:
  ~Clock() = default;  // Nobody owns one by this type, and the system's clock outlives every thread.
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
