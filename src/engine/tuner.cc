// SPDX-License-Identifier: Apache-2.0

#include "engine/tuner.h"

#include <bit>

namespace penstock::core {
namespace {

// The bytes that are moved with one number of threads while others are still to be tried. At the end of each part
// threads wait for the last one, and many threads wait longer than few: a part must be so large that this hardly
// counts, as it hardly does in a whole request.
constexpr std::uint64_t kPartMin = std::uint64_t{64} << 20;
constexpr std::uint64_t kPartMax = std::uint64_t{128} << 20;
constexpr std::uint32_t kTriesEach = 2;  // The better try counts, because a disturbance can only make it slower.
// Another number of threads must cost less than this part of the present one's cost.
constexpr double kMargin = 0.95;
constexpr double kShift = 1.5;              // A rate that changed by this factor shows that costs have shifted,
constexpr std::uint32_t kShiftParts = 3;    // if so many parts in a row show it.
constexpr std::uint32_t kLookAgain = 4096;  // It tries again after this many parts in any case.
constexpr auto kRelaxed = std::memory_order_relaxed;

// The size of parts. All requests of one size class have parts of one size, except in the last class.
constexpr std::uint64_t part_of(std::uint64_t size) { return std::clamp(std::bit_floor(size) / 8, kPartMin, kPartMax); }

}  // namespace

unsigned Tuner::index_of(const Kind& kind) {
  return (static_cast<unsigned>(kind.op) * 2 + static_cast<unsigned>(kind.io_mode)) * kSizeClasses +
         size_class(kind.size);
}

unsigned Tuner::last_step() const { return std::min(static_cast<unsigned>(std::bit_width(threads_max_)), kSteps) - 1; }

unsigned Tuner::step_of(unsigned threads) const {
  return static_cast<unsigned>(std::bit_width(threads_max_) - std::bit_width(threads));
}

// The next number of threads to try: first the one in use, then fewer, then more; kSteps if all have been tried.
unsigned Tuner::next_trial(const Spot& spot) const {
  const unsigned best = spot.best.load(kRelaxed);
  for (const unsigned step : {best, best + 1, best - 1}) {
    if (step <= last_step() && spot.tries[step].load(kRelaxed) < kTriesEach) return step;  // Below none is a large one.
  }
  return kSteps;
}

Tuner::Choice Tuner::choose(const Kind& kind, std::uint64_t bytes) {
  const Spot& spot = spots_[index_of(kind)];
  const unsigned step = spot.settled.load(kRelaxed) ? kSteps : next_trial(spot);
  if (step == kSteps) return {threads_at(spot.best.load(kRelaxed)), bytes, false};
  // The rest becomes another part only if it is large enough.
  const std::uint64_t part = part_of(kind.size);
  return {threads_at(step), bytes < 2 * part ? bytes : part, true};
}

void Tuner::learn(const Kind& kind, const Choice& choice, const Cost& cost) {
  if (cost.bytes < (512u << 10)) return;
  Spot& spot = spots_[index_of(kind)];
  const double milliseconds =
      (static_cast<double>(cost.wall_ns) + cpu_weight_ * static_cast<double>(cost.cpu_ns)) / 1e6;
  const double each = static_cast<double>(cost.bytes) / std::max(milliseconds, 1e-6);
  const auto rate = static_cast<std::uint32_t>(std::clamp(each, 1.0, 4e9));
  const bool settled = spot.settled.load(kRelaxed);
  // Parts that began before the tuner settled, or before it started again, say nothing any more.
  if (choice.trial && !settled) learn_trial(spot, step_of(choice.threads), rate);
  if (!choice.trial && settled) watch(spot, rate);
}

// Notes a trial. Once all are tried, goes on from the better neighbour if there is one; otherwise it has settled.
void Tuner::learn_trial(Spot& spot, unsigned step, std::uint32_t rate) const {
  if (rate > spot.rates[step].load(kRelaxed)) spot.rates[step].store(rate, kRelaxed);
  spot.tries[step].fetch_add(1, kRelaxed);
  while (next_trial(spot) == kSteps) {
    const unsigned best = spot.best.load(kRelaxed);
    const unsigned better = better_than(spot, best);
    spot.best.store(better, kRelaxed);
    if (better != best) continue;
    for (auto* number : {&spot.settled_rate, &spot.odd, &spot.since}) number->store(0, kRelaxed);
    spot.settled.store(true, kRelaxed);
    return;
  }
}

unsigned Tuner::better_than(const Spot& spot, unsigned step) const {
  unsigned better = step;
  double most = spot.rates[step].load(kRelaxed) / kMargin;
  for (const unsigned other : {step + 1, step - 1}) {
    if (other > last_step() || spot.rates[other].load(kRelaxed) <= most) continue;
    most = spot.rates[other].load(kRelaxed);
    better = other;
  }
  return better;
}

// Whole requests are faster than the parts by which the tuner settled, so they are compared only with one another.
void Tuner::watch(Spot& spot, std::uint32_t rate) {
  const std::uint32_t since = spot.since.fetch_add(1, kRelaxed) + 1;
  const double settled_rate = spot.settled_rate.load(kRelaxed);
  if (settled_rate == 0) spot.settled_rate.store(rate, kRelaxed);
  const bool is_odd = settled_rate != 0 && (rate > settled_rate * kShift || rate < settled_rate / kShift);
  if (!is_odd && spot.odd.load(kRelaxed) != 0) spot.odd.store(0, kRelaxed);
  const bool has_shifted = is_odd && spot.odd.fetch_add(1, kRelaxed) + 1 >= kShiftParts;
  if (!has_shifted && since < kLookAgain) return;
  for (unsigned step = 0; step < kSteps; ++step) {
    spot.rates[step].store(0, kRelaxed);
    spot.tries[step].store(0, kRelaxed);
  }
  spot.settled.store(false, kRelaxed);
}

Tuner::Finding Tuner::finding(const Kind& kind) const {
  const Spot& spot = spots_[index_of(kind)];
  return {threads_at(spot.best.load(kRelaxed)), spot.settled.load(kRelaxed)};
}

}  // namespace penstock::core
