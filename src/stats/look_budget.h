// SPDX-License-Identifier: Apache-2.0

// The budget that a look at others' statistics may still spend. Anybody can hold as many segments, of any shape, as
// they like; their readers, often root, must not pay for that with their time or memory. For the tools' readers.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace penstock::core {

struct LookLimits {
  std::uint64_t processes;
  std::uint64_t descriptors;  // The ones whose names are asked for.
  std::uint64_t segments;     // Opened; a segment that has many descriptors counts once.
  std::uint64_t read_bytes;
  std::uint64_t kept_bytes;  // Memory that snapshots take, roughly.
  std::chrono::milliseconds time;
};

// A session of ours is 0.8 MiB to read and some 20 KiB to keep, and a process has one or two.
constexpr LookLimits kProcessLimits{.processes = 1,
                                    .descriptors = 1 << 18,
                                    .segments = 256,
                                    .read_bytes = 64 << 20,
                                    .kept_bytes = 8 << 20,
                                    .time = std::chrono::milliseconds(2'000)};
constexpr LookLimits kMachineLimits{.processes = 1 << 17,
                                    .descriptors = 1 << 22,
                                    .segments = 1 << 14,
                                    .read_bytes = std::uint64_t{4} << 30,
                                    .kept_bytes = 64 << 20,
                                    .time = std::chrono::milliseconds(10'000)};

class LookBudget {
 public:
  // A part that spends, spends of the whole, too.
  explicit LookBudget(const LookLimits& limits, LookBudget* whole = nullptr, const Clock& clock = system_clock())
      : left_(limits), clock_(clock), end_(clock.now() + limits.time), whole_(whole) {}

  // False where less is left.
  bool take(std::uint64_t LookLimits::*what, std::uint64_t amount) {
    if (left_.*what < amount || clock_.now() > end_ || (whole_ != nullptr && !whole_->take(what, amount))) return false;
    left_.*what -= amount;
    return true;
  }

 private:
  LookLimits left_;
  const Clock& clock_;
  const std::chrono::nanoseconds end_;
  LookBudget* const whole_;
};

}  // namespace penstock::core
