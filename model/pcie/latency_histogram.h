// SPDX-License-Identifier: Apache-2.0

// Latencies of I/Os in bounded memory: 128 buckets for each power of two, so that percentiles are accurate to 0.8 %;
// mean and maximum are exact.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "model/pcie/event_queue.h"

namespace penstock::model {

class LatencyHistogram {
 public:
  void add(Picoseconds latency) {
    const std::size_t bucket = bucket_of(latency);
    if (bucket >= counts_.size()) counts_.resize(bucket + 1, 0);
    ++counts_[bucket];
    ++count_;
    sum_seconds_ += to_seconds(latency);
    most_ = std::max(most_, latency);
  }

  std::uint64_t count() const { return count_; }
  double mean_seconds() const { return count_ == 0 ? 0 : sum_seconds_ / static_cast<double>(count_); }
  double most_seconds() const { return to_seconds(most_); }

  // `share` from 0 to 1.
  double percentile_seconds(double share) const {
    const double wanted = share * static_cast<double>(count_);
    double seen = 0;
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
      seen += static_cast<double>(counts_[bucket]);
      if (seen >= wanted && seen > 0) return std::min(to_seconds(middle_of(bucket)), most_seconds());
    }
    return most_seconds();
  }

 private:
  static constexpr unsigned kBits = 7;
  static constexpr std::uint64_t kSteps = std::uint64_t{1} << kBits;

  static std::size_t bucket_of(Picoseconds value) {
    if (value < kSteps) return static_cast<std::size_t>(value);
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - kBits - 1;
    return static_cast<std::size_t>(shift * kSteps + (value >> shift));
  }
  static Picoseconds middle_of(std::size_t bucket) {
    if (bucket < 2 * kSteps) return bucket;
    const unsigned shift = static_cast<unsigned>(bucket / kSteps) - 1;
    const Picoseconds base = static_cast<Picoseconds>(bucket - shift * kSteps) << shift;
    return base + (Picoseconds{1} << shift) / 2;
  }

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_seconds_ = 0;
  Picoseconds most_ = 0;
};

}  // namespace penstock::model
