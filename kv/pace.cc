// SPDX-License-Identifier: Apache-2.0

#include "kv/pace.h"

namespace penstock::kv {
namespace {

constexpr double kKept = 0.95;  // The weight that earlier gets keep at each get.
// A get counts by how far off it is in proportion to its size, or large ones alone would decide; but not to less than a
// page, or the smallest would.
constexpr double kSmallest = 4096;
// Sizes that are as good as one tell nothing of what a get takes apart from its bytes.
constexpr double kSpreadLeast = 1e-6;

}  // namespace

void Pace::add(std::uint64_t bytes, double seconds) {
  if (bytes == 0) return;
  const auto x = static_cast<double>(bytes);
  const double weight = 1 / ((x + kSmallest) * (x + kSmallest));
  const core::MutexLock lock(mutex_);
  sums_ = {kKept * sums_.weight + weight, kKept * sums_.bytes + weight * x, kKept * sums_.seconds + weight * seconds,
           kKept * sums_.bytes_squared + weight * x * x, kKept * sums_.bytes_by_seconds + weight * x * seconds};
}

// Reads the time from the least-squares line through the gets that were added. The line's constant and its slope are
// never below 0.
std::optional<double> Pace::seconds(std::uint64_t bytes) const {
  const core::MutexLock lock(mutex_);
  if (sums_.weight == 0) return std::nullopt;
  const auto x = static_cast<double>(bytes);
  const double spread = sums_.weight * sums_.bytes_squared - sums_.bytes * sums_.bytes;
  const double by_bytes_alone = sums_.bytes_by_seconds / sums_.bytes_squared;
  if (spread <= kSpreadLeast * sums_.weight * sums_.bytes_squared) return by_bytes_alone * x;
  const double each_byte = (sums_.weight * sums_.bytes_by_seconds - sums_.bytes * sums_.seconds) / spread;
  const double each_get = (sums_.seconds - each_byte * sums_.bytes) / sums_.weight;
  if (each_byte < 0) return sums_.seconds / sums_.weight;
  return each_get < 0 ? by_bytes_alone * x : each_get + each_byte * x;
}

}  // namespace penstock::kv
