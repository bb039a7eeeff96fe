// SPDX-License-Identifier: Apache-2.0

#include "tools/common/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace penstock::tools {

void Histogram::merge(const Histogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
}

std::uint64_t Histogram::count() const { return std::accumulate(buckets_.begin(), buckets_.end(), std::uint64_t{0}); }

std::uint64_t Histogram::begin_of(std::size_t index) {
  if (index < 2 * kHalf) return index;
  return std::uint64_t{kHalf + index % kHalf} << (index / kHalf - 1);
}

std::uint64_t Histogram::middle_of(std::size_t index) {
  if (index < 2 * kHalf) return index;
  return begin_of(index) + (std::uint64_t{1} << (index / kHalf - 1)) / 2;
}

std::vector<Histogram::Bar> Histogram::bars(std::size_t most) const {
  constexpr std::size_t kEach = kHalf / 4;
  std::vector<Bar> all;
  for (std::size_t i = 0; i + kEach <= kBuckets; i += kEach) {
    const std::uint64_t count =
        std::accumulate(buckets_.begin() + static_cast<std::ptrdiff_t>(i),
                        buckets_.begin() + static_cast<std::ptrdiff_t>(i + kEach), std::uint64_t{0});
    const bool is_last = i + kEach == kBuckets;
    all.push_back({begin_of(i), is_last ? std::numeric_limits<std::uint64_t>::max() : begin_of(i + kEach), count});
  }
  while (!all.empty() && all.back().count == 0) all.pop_back();
  all.erase(all.begin(), std::find_if(all.begin(), all.end(), [](const Bar& bar) { return bar.count > 0; }));
  while (all.size() > most) {
    for (std::size_t i = 0; i < all.size(); i += 2) {
      all[i / 2] = all[i];
      if (i + 1 == all.size()) break;
      all[i / 2].below = all[i + 1].below;
      all[i / 2].count += all[i + 1].count;
    }
    all.resize((all.size() + 1) / 2);
  }
  return all;
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
