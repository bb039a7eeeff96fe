// SPDX-License-Identifier: Apache-2.0

// Limits for reading other processes' statistics. Any user can hold as many segments, of any form, as they like; the
// readers, often root, must not spend unlimited time or memory on them. For the tools' readers.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace penstock::core {

struct LookLimits {
  std::uint64_t processes;
  std::uint64_t descriptors;  // Descriptors whose names are read.
  std::uint64_t segments;     // Segments that are opened; one with many descriptors counts once.
  std::uint64_t read_bytes;
  std::uint64_t kept_bytes;  // Memory for snapshots, roughly.
  std::chrono::milliseconds time;
};

// A session of this version has 0.8 MiB to read and about 20 KiB to keep, and a process has one or two sessions.
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
  // A budget that is part of a whole spends from the whole as well.
  explicit LookBudget(const LookLimits& limits, LookBudget* whole = nullptr, const Clock& clock = system_clock())
      : left_(limits), clock_(clock), end_(clock.now() + limits.time), whole_(whole) {}

  // Returns false if less than `amount` is left.
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
