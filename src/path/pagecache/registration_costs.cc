// SPDX-License-Identifier: Apache-2.0

#include "path/pagecache/registration_costs.h"

#include <algorithm>

namespace penstock::core {
namespace {

// First guesses, for a mebibyte each. Eight workers took 20'500 on an H200 machine and 30'000 on H100 machines, and two
// processes at the same time 40'000 and more (2026-11-21 to 25).
constexpr std::uint64_t kBounceGuess = 22'000;
// If CPU time counts, requests are not bounced just to measure that, unless registering turns out to be slower than
// this.
constexpr std::uint64_t kThriftyBounceGuess = 40'000;
constexpr double kThriftyWeight = 0.1;
constexpr std::uint64_t kBounceCpuGuess = 170'000;  // The CPU time of all workers.
// Costs that are not measured, because no clock is read for a small request, and writes wait for each other. CPU work
// is scaled by the time that bouncing a large read out of the page cache takes this machine's CPUs.
constexpr double kWriteGuess = 150'000;             // Writing over a file: one writer at a time.
constexpr double kSmallGuess = 400;                 // The system call of a small request, whatever its size.
constexpr double kSmallGuessPerMebibyte = 105'000;  // Its copy.
// Registering stops the driver for most of a millisecond, and with it all threads that copy. It affects a small part of
// the small requests.
constexpr double kStall = 0.02;  // The part of that time for which others wait.
// From this size on, most of the time overlaps. A smaller request pays for extents that it reads only in part.
constexpr std::uint64_t kOverlapMin = 4 * RegistrationCosts::kExtentBytes;

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1u << 20); }

double value_of(const std::atomic<std::uint64_t>& cost) {
  return static_cast<double>(cost.load(std::memory_order_relaxed));
}

// A measurement below the known cost is adopted at once, down to half of it. A higher one counts for a quarter, because
// disturbances make measurements slower; a few in a row are adopted. No measurement counts for more than twice the
// known cost.
constexpr std::uint64_t kSlowerCounts = 4;

void learn(std::atomic<std::uint64_t>& cost, std::uint64_t bytes, std::uint64_t wall_ns,
           std::uint64_t slower_counts = kSlowerCounts) {
  if (bytes == 0) return;
  const std::uint64_t known = cost.load(std::memory_order_relaxed);
  const auto latest = std::max(static_cast<std::uint64_t>(static_cast<double>(wall_ns) / mebibytes(bytes)), known / 2);
  const std::uint64_t slower = latest < known ? 0 : (latest - known + slower_counts - 1) / slower_counts;
  cost.store(latest < known ? latest : known + std::min(slower, known), std::memory_order_relaxed);
}

// Lets a high cost that is no longer measured fade: other work on the machine comes and goes.
void fade(std::atomic<std::uint64_t>& cost, std::uint64_t guess) {
  const std::uint64_t known = cost.load(std::memory_order_relaxed);
  if (known > guess) cost.store(known - (known - guess) / 64, std::memory_order_relaxed);
}

}  // namespace

RegistrationCosts::RegistrationCosts(double cpu_weight)
    : cpu_weight_(cpu_weight), guess_(cpu_weight >= kThriftyWeight ? kThriftyBounceGuess : kBounceGuess) {
  for (Cost& cost : bounce_) cost.store(guess_, std::memory_order_relaxed);
  bounce_cpu_.store(kBounceCpuGuess, std::memory_order_relaxed);
}

// How much slower this machine's CPUs are than those of the first guesses.
double RegistrationCosts::slowness() const { return value_of(bounce_cpu_) / static_cast<double>(kBounceCpuGuess); }

// Requests of similar sizes are bounced at similar costs, which include the number of threads and of other requests.
double RegistrationCosts::bounce_cost(const FileRange& request) const {
  return request.op == Op::write ? kWriteGuess * slowness() : value_of(bounce_[size_class(request.size)]);
}

std::int64_t RegistrationCosts::saving(const FileRange& request, std::uint64_t bytes, bool small) const {
  if (small) {
    const double bounced = (kSmallGuess + kSmallGuessPerMebibyte * mebibytes(bytes)) * slowness();
    return static_cast<std::int64_t>(bounced * (1 + cpu_weight_));
  }
  const double waiting = std::max(bounce_cost(request) - value_of(fetch_), 0.0);
  return static_cast<std::int64_t>(mebibytes(bytes) * (waiting + cpu_weight_ * value_of(bounce_cpu_)));
}

// A large request's extents are registered while earlier ones are fetched: both together were measured, and the time
// above the fetch alone is the price. A shorter request pays in full, because nothing overlaps. A small request does
// not wait for its registration.
std::int64_t RegistrationCosts::break_even(std::uint64_t request, std::uint64_t bytes, bool small) const {
  const double extent = mebibytes(kExtentBytes);
  const double cost = extent * value_of(register_);
  const double alone = request < kOverlapMin ? cost - mebibytes(bytes) * value_of(fetch_) : 0;
  const double overlapped = extent * (value_of(first_fetch_) - value_of(fetch_));
  const double waiting = small ? kStall * cost : std::max({alone, overlapped, 0.0});
  return static_cast<std::int64_t>(waiting + cpu_weight_ * cost);
}

void RegistrationCosts::learn_registering(std::uint64_t wall_ns) { learn(register_, kExtentBytes, wall_ns); }

void RegistrationCosts::learn_first_fetch(std::uint64_t request, std::uint64_t bytes, std::uint64_t wall_ns) {
  if (request >= kOverlapMin) learn(first_fetch_, bytes, wall_ns);
  fade(bounce_[size_class(request)], guess_);
}

void RegistrationCosts::learn_fetch(std::uint64_t request, std::uint64_t bytes, std::uint64_t wall_ns) {
  if (request >= kOverlapMin) learn(fetch_, bytes, wall_ns);
}

void RegistrationCosts::learn_bounce(std::uint64_t request, std::uint64_t bytes, std::uint64_t wall_ns,
                                     std::uint64_t cpu_ns) {
  // If CPU time counts, an expensive trial is not repeated three times: the other way saves CPU time in any case.
  learn(bounce_[size_class(request)], bytes, wall_ns, cpu_weight_ >= kThriftyWeight ? 1 : kSlowerCounts);
  if (cpu_ns > 0) learn(bounce_cpu_, bytes, cpu_ns);
  if (request >= kOverlapMin) fade(first_fetch_, kFirstFetchGuess);
}

}  // namespace penstock::core
