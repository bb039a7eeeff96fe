// SPDX-License-Identifier: Apache-2.0

#include "kv/pace.h"

namespace penstock::kv {
namespace {

constexpr double kKept = 0.95;  // Each get multiplies the weight of earlier gets by this.
// Errors count relative to the size of a get, or large gets alone would decide; but at least relative to a page, or the
// smallest would.
constexpr double kSmallest = 4096;
// Nearly equal sizes do not show the constant part of a get's time.
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

// Predicts from a least-squares line through the added gets, whose constant and slope are never below 0.
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
