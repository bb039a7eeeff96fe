// How many hands a large request gets, found out by trying: for each direction, way and size of request, the number
// that costs least, in time and, by the policy's weight, in CPU. Starts with all workers, tries fewer and more, and
// stays where neither is better by a margin; looks again when costs have shifted, or after a long while. While it
// tries, a request is moved in parts, so that a few hundred megabytes settle it. Thread-safe; takes no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/io.h"

namespace penstock::core {

struct Cost {
  std::uint64_t bytes = 0;
  std::uint64_t wall_ns = 0;
  std::uint64_t cpu_ns = 0;  // Of all who worked on it.
};

class Tuner {
 public:
  // What a request, or a part of it, is like to others.
  struct Kind {
    Op op = Op::read;
    Way way = Way::buffered;
    std::uint64_t size = 0;  // Of the whole request.
  };
  struct Choice {
    unsigned hands = 1;
    std::uint64_t bytes = 0;  // To be moved so; the rest is another choice.
    bool trial = false;
  };

  Tuner(unsigned hands_max, double cpu_weight) : hands_max_(hands_max), cpu_weight_(cpu_weight) {}

  Choice choose(const Kind& kind, std::uint64_t bytes);
  void learn(const Kind& kind, const Choice& choice, const Cost& cost);
  // What is settled on now, and whether by measurement.
  struct Finding {
    unsigned hands = 0;
    bool settled = false;
    double cost_ns = 0;  // A mebibyte; 0 where nothing was measured.
  };
  Finding finding(const Kind& kind) const;

 private:
  static constexpr unsigned kSizes = 12;
  static constexpr unsigned kSteps = 9;  // One hand, two, four, ... 256.

  struct Spot {
    // Nanoseconds a mebibyte by step, the median of the last three; and how often each was tried.
    std::array<std::array<std::atomic<std::uint32_t>, 3>, kSteps> costs{};
    std::array<std::atomic<std::uint32_t>, kSteps> tries{};
    std::atomic<std::uint32_t> best{UINT32_MAX};  // The step in use.
    std::atomic<std::uint32_t> since{0};          // Parts moved since it was settled.
    std::atomic<bool> settled{false};
  };

  const Spot& spot(const Kind& kind) const { return spots_[index_of(kind)]; }
  static unsigned index_of(const Kind& kind);
  unsigned top() const;
  unsigned hands_at(unsigned step) const;
  static std::uint32_t median(const Spot& spot, unsigned step);
  unsigned next_trial(const Spot& spot, unsigned best) const;
  void settle(Spot& spot);

  const unsigned hands_max_;
  const double cpu_weight_;
  std::array<Spot, 2 * 2 * kSizes> spots_;
};

}  // namespace penstock::core
