// SPDX-License-Identifier: Apache-2.0

#include "kv/pace.h"

#include <algorithm>

namespace penstock::kv {
namespace {

constexpr double kKept = 0.95;  // Each get multiplies the weight of earlier gets by this.
// Errors count relative to the size of a get, or large gets alone would decide; but at least relative to a page, or the
// smallest would.
constexpr double kSmallest = 4096;
// Nearly equal sizes do not show the constant part of a get's time.
constexpr double kSpreadLeast = 1e-6;
// Before anything was measured, a byte of another request counts as one of the get's own: for as much as one get with a
// queue of its own size does.
constexpr double kAssumed = 1;
// A get without a queue takes no less than this share of one with the usual queue, whatever the line says.
constexpr double kShareLeast = 0.05;

}  // namespace

void Pace::add(std::uint64_t bytes, std::uint64_t queued, double seconds) {
  if (bytes == 0) return;
  const auto x = static_cast<double>(bytes), q = static_cast<double>(queued);
  const double weight = 1 / ((x + kSmallest) * (x + kSmallest));
  const core::MutexLock lock(mutex_);
  const auto added = [](double& sum, double value) { sum = kKept * sum + value; };
  added(sums_.weight, weight);
  added(sums_.bytes, weight * x);
  added(sums_.queued, weight * q);
  added(sums_.seconds, weight * seconds);
  added(sums_.bytes_squared, weight * x * x);
  added(sums_.queued_squared, weight * q * q);
  added(sums_.bytes_by_queued, weight * x * q);
  added(sums_.bytes_by_seconds, weight * x * seconds);
  added(sums_.queued_by_seconds, weight * q * seconds);
}

// The time for each byte of others: the slope by them, among gets of one size.
double Pace::each_queued(const Sums& sums) {
  const double assumed = sums.bytes_by_seconds / sums.bytes_squared;
  double squared = sums.queued_squared - sums.queued * sums.queued / sums.weight;
  double by_seconds = sums.queued_by_seconds - sums.queued * sums.seconds / sums.weight;
  const double bytes_squared = sums.bytes_squared - sums.bytes * sums.bytes / sums.weight;
  if (bytes_squared > kSpreadLeast * sums.bytes_squared) {
    const double by_bytes = sums.bytes_by_queued - sums.bytes * sums.queued / sums.weight;
    squared -= by_bytes * by_bytes / bytes_squared;
    by_seconds -= by_bytes * (sums.bytes_by_seconds - sums.bytes * sums.seconds / sums.weight) / bytes_squared;
  }
  return std::max(0.0, (by_seconds + kAssumed * assumed) / (std::max(squared, 0.0) + kAssumed));
}

// The time of a get with the usual queue, from a least-squares line whose constant and slope are never below 0.
double Pace::of_size(const Sums& sums, double bytes) {
  const double spread = sums.weight * sums.bytes_squared - sums.bytes * sums.bytes;
  const double by_bytes_alone = sums.bytes_by_seconds / sums.bytes_squared;
  if (spread <= kSpreadLeast * sums.weight * sums.bytes_squared) return by_bytes_alone * bytes;
  const double each_byte = (sums.weight * sums.bytes_by_seconds - sums.bytes * sums.seconds) / spread;
  const double each_get = (sums.seconds - each_byte * sums.bytes) / sums.weight;
  if (each_byte < 0) return sums.seconds / sums.weight;
  return each_get < 0 ? by_bytes_alone * bytes : each_get + each_byte * bytes;
}

std::optional<double> Pace::seconds(std::uint64_t bytes, std::uint64_t queued) const {
  const core::MutexLock lock(mutex_);
  if (sums_.weight == 0) return std::nullopt;
  const double each = each_queued(sums_), usual = sums_.queued / sums_.weight;
  Sums evened = sums_;  // The sums, as if all gets had had the usual queue.
  evened.bytes_by_seconds -= each * (sums_.bytes_by_queued - usual * sums_.bytes);
  const double with_usual = of_size(evened, static_cast<double>(bytes));
  return std::max(with_usual + each * (static_cast<double>(queued) - usual), kShareLeast * with_usual);
}

}  // namespace penstock::kv
