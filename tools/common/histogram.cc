// SPDX-License-Identifier: Apache-2.0

#include "tools/common/histogram.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace penstock::tools {

void Histogram::merge(const Histogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
}

std::uint64_t Histogram::count() const { return std::accumulate(buckets_.begin(), buckets_.end(), std::uint64_t{0}); }

std::uint64_t Histogram::middle_of(std::size_t index) {
  if (index < 2 * kHalf) return index;
  const std::size_t shift = index / kHalf - 1;
  const std::uint64_t low = std::uint64_t{kHalf + index % kHalf} << shift;
  return low + (std::uint64_t{1} << shift) / 2;
}

std::uint64_t Histogram::quantile(double quantile) const {
  const std::uint64_t total = count();
  if (total == 0) return 0;
  const double wanted = std::ceil(std::clamp(quantile, 0.0, 1.0) * static_cast<double>(total));
  const std::uint64_t rank = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, total);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= rank) return middle_of(i);
  }
  return 0;
}

}  // namespace penstock::tools
