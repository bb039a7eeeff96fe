// SPDX-License-Identifier: Apache-2.0

// Finds out how many threads a large request should get. For each direction, I/O mode and size class it looks for the
// number that costs least, in time and, weighted by the policy, in CPU time. It starts with all workers, tries half and
// twice as many, and stays if neither is better by a margin; it tries again when costs have shifted, or after a long
// while. While it tries, it moves a request in parts, so that a few hundred megabytes suffice. Thread-safe; takes no
// lock.
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
  std::uint64_t cpu_ns = 0;  // The CPU time of all threads that worked on it.
};

class Tuner {
 public:
  // The kind of a request, or of a part of it. Requests of one kind should cost alike.
  struct Kind {
    Op op = Op::read;
    IoMode io_mode = IoMode::buffered;
    std::uint64_t size = 0;  // The size of the whole request.
  };
  struct Choice {
    unsigned threads = 1;
    std::uint64_t bytes = 0;  // The bytes to move with these threads; the rest needs another choice.
    bool trial = false;
  };

  Tuner(unsigned threads_max, double cpu_weight) : threads_max_(std::max(threads_max, 1u)), cpu_weight_(cpu_weight) {}

  Choice choose(const Kind& kind, std::uint64_t bytes);
  void learn(const Kind& kind, const Choice& choice, const Cost& cost);
  // The number of threads in use, and if trials have settled it.
  struct Finding {
    unsigned threads = 0;
    bool settled = false;
  };
  Finding finding(const Kind& kind) const;

 private:
  static constexpr unsigned kSteps = 9;  // All threads, half of them, a quarter ...

  struct Spot {
    // The most bytes moved for a millisecond of cost in any trial, by step; and how often each step was tried.
    std::array<std::atomic<std::uint32_t>, kSteps> rates{};
    std::array<std::atomic<std::uint32_t>, kSteps> tries{};
    std::atomic<std::uint32_t> best{0};  // The step in use.
    std::atomic<bool> settled{false};
    std::atomic<std::uint32_t> settled_rate{0};  // The rate of the first part after it settled; 0 before that.
    std::atomic<std::uint32_t> odd{0};           // The parts in a row whose rate differs much from settled_rate.
    std::atomic<std::uint32_t> since{0};         // Parts since it was settled.
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
