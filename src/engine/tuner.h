// SPDX-License-Identifier: Apache-2.0

// How many threads a large request gets, found out by trying: for each direction, way and size of request, the number
// that costs least, in time and, by the policy's weight, in CPU. Starts with all workers, tries half as many and
// twice as many, and stays where neither is better by a margin; looks again when costs have shifted, or after a long
// while. While it tries, a request is moved in parts, so that a few hundred megabytes settle it. Thread-safe; takes
// no lock.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/size_class.h"
#include "core/io.h"

namespace penstock::core {

struct Cost {
  std::uint64_t bytes = 0;
  std::uint64_t wall_ns = 0;
  std::uint64_t cpu_ns = 0;  // All threads' that worked on it.
};

class Tuner {
 public:
  // The kind of a request, or of a part of it: like ones cost alike.
  struct Kind {
    Op op = Op::read;
    IoMode io_mode = IoMode::buffered;
    std::uint64_t size = 0;  // The whole request's.
  };
  struct Choice {
    unsigned threads = 1;
    std::uint64_t bytes = 0;  // To be moved so; the rest is another choice.
    bool trial = false;
  };

  Tuner(unsigned threads_max, double cpu_weight) : threads_max_(std::max(threads_max, 1u)), cpu_weight_(cpu_weight) {}

  Choice choose(const Kind& kind, std::uint64_t bytes);
  void learn(const Kind& kind, const Choice& choice, const Cost& cost);
  // The number of threads in use now, and whether trials have settled it.
  struct Finding {
    unsigned threads = 0;
    bool settled = false;
  };
  Finding finding(const Kind& kind) const;

 private:
  static constexpr unsigned kSteps = 9;  // All threads, half of them, a quarter ...

  struct Spot {
    // Bytes that a millisecond of cost moved, by step, the most seen in trials; and how often each was tried.
    std::array<std::atomic<std::uint32_t>, kSteps> rates{};
    std::array<std::atomic<std::uint32_t>, kSteps> tries{};
    std::atomic<std::uint32_t> best{0};  // The step in use.
    std::atomic<bool> settled{false};
    std::atomic<std::uint32_t> usual{0};  // The rate of the first part after that; 0 before it.
    std::atomic<std::uint32_t> odd{0};    // Parts in a row that are far from it.
    std::atomic<std::uint32_t> since{0};  // Parts since it was settled.
  };

  static unsigned index_of(const Kind& kind);
  unsigned last_step() const;
  unsigned threads_at(unsigned step) const { return threads_max_ >> step; }
  unsigned step_of(unsigned threads) const;
  unsigned next_trial(const Spot& spot) const;
  void learn_trial(Spot& spot, unsigned step, std::uint32_t rate) const;
  unsigned better_than(const Spot& spot, unsigned step) const;
  static void watch(Spot& spot, std::uint32_t rate);

  const unsigned threads_max_;
  const double cpu_weight_;
  std::array<Spot, 2 * 2 * kSizeClasses> spots_;
};

}  // namespace penstock::core
