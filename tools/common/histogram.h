// SPDX-License-Identifier: Apache-2.0

// Counts latencies in log-linear buckets: exact below 256, within 0.4% above. One thread adds; finished histograms are
// merged. Adding costs a shift and an increment, so a loop of millions of operations a second can afford it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::tools {

class Histogram {
 public:
  void add(std::uint64_t value) { ++buckets_[index_of(value)]; }
  void merge(const Histogram& other);

  std::uint64_t count() const;
  // The value that the fraction `quantile` (0 to 1) of all values does not exceed; 0 if there are no values.
  std::uint64_t quantile(double quantile) const;

  struct Bar {
    std::uint64_t from, below, count;
  };
  // The bars from the first value to the last, four to each doubling of the value; coarser if there would be more than
  // `most`.
  std::vector<Bar> bars(std::size_t most = kBuckets) const;

 private:
  static constexpr unsigned kLinearBits = 8;
  static constexpr std::size_t kHalf = std::size_t{1} << (kLinearBits - 1);
  static constexpr std::size_t kBuckets = (64 - kLinearBits) * kHalf + 2 * kHalf;

  static std::size_t index_of(std::uint64_t value) {
    if (value < 2 * kHalf) return value;
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kLinearBits;
    return shift * kHalf + (value >> shift);
  }
  static std::uint64_t begin_of(std::size_t index);
  static std::uint64_t middle_of(std::size_t index);

  std::array<std::uint64_t, kBuckets> buckets_{};
};

}  // namespace penstock::tools
