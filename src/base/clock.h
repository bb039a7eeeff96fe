// The seam for time. Monotonic nanoseconds; the origin means nothing.
#pragma once

#include <cstdint>
#include <ctime>

namespace penstock::core {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::uint64_t now_ns() = 0;
};

class SystemClock final : public Clock {
 public:
  std::uint64_t now_ns() override {
    timespec time;
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
  }
};

}  // namespace penstock::core
