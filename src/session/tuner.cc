#include "session/tuner.h"

#include <algorithm>
#include <bit>

namespace penstock::core {
namespace {

constexpr std::uint64_t kPart = std::uint64_t{32} << 20;  // Moved by one choice while others are still to be tried.
constexpr std::uint32_t kTriesEach = 3;
constexpr double kMargin = 0.95;            // Another number of hands must cost less than this part of the present one.
constexpr double kShift = 1.5;              // Costs that have changed by this factor say that something else has.
constexpr std::uint32_t kLookAgain = 4096;  // Parts, after which it tries again in any case.

}  // namespace

unsigned Tuner::index_of(const Kind& kind) {
  const unsigned size = std::min(static_cast<unsigned>(std::bit_width(kind.size >> 20)), kSizes - 1);
  return (static_cast<unsigned>(kind.op) * 2 + static_cast<unsigned>(kind.way)) * kSizes + size;
}

// The step of all hands; where their number is no power of two, the last step is cut.
unsigned Tuner::top() const {
  return std::min(static_cast<unsigned>(std::bit_width(std::max(hands_max_, 1u) - 1)), kSteps - 1);
}

unsigned Tuner::hands_at(unsigned step) const { return std::min(1u << step, std::max(hands_max_, 1u)); }

std::uint32_t Tuner::median(const Spot& spot, unsigned step) {
  std::array<std::uint32_t, 3> values;
  for (unsigned i = 0; i < 3; ++i) values[i] = spot.costs[step][i].load(std::memory_order_relaxed);
  std::sort(values.begin(), values.end());
  return values[1];
}

// The best one first, then its neighbours; kSteps where all have been tried.
unsigned Tuner::next_trial(const Spot& spot, unsigned best) const {
  const auto is_open = [&](unsigned step) { return spot.tries[step].load(std::memory_order_relaxed) < kTriesEach; };
  if (is_open(best)) return best;
  if (best > 0 && is_open(best - 1)) return best - 1;
  if (best < top() && is_open(best + 1)) return best + 1;
  return kSteps;
}

Tuner::Choice Tuner::choose(const Kind& kind, std::uint64_t bytes) {
  Spot& spot = spots_[index_of(kind)];
  std::uint32_t best = spot.best.load(std::memory_order_relaxed);
  if (best > top()) best = top();
  if (spot.settled.load(std::memory_order_relaxed)) return {hands_at(best), bytes, false};
  const unsigned step = next_trial(spot, best);
  if (step == kSteps) return {hands_at(best), bytes, false};
  // The rest is another part only where it is worth being one.
  return {hands_at(step), bytes < 2 * kPart ? bytes : kPart, true};
}

void Tuner::learn(const Kind& kind, const Choice& choice, const Cost& cost) {
  if (cost.bytes < (1u << 20)) return;
  Spot& spot = spots_[index_of(kind)];
  const double nanoseconds = static_cast<double>(cost.wall_ns) + cpu_weight_ * static_cast<double>(cost.cpu_ns);
  const double each = nanoseconds / (static_cast<double>(cost.bytes) / (1u << 20));
  const auto value = static_cast<std::uint32_t>(std::clamp(each, 1.0, 4e9));
  const unsigned step = std::min(static_cast<unsigned>(std::bit_width(std::max(choice.hands, 1u) - 1)), top());
  if (choice.trial) {
    const std::uint32_t number = spot.tries[step].fetch_add(1, std::memory_order_relaxed);
    spot.costs[step][number % 3].store(value, std::memory_order_relaxed);
    settle(spot);
    return;
  }
  const std::uint32_t since = spot.since.fetch_add(1, std::memory_order_relaxed) + 1;
  const double known = median(spot, step);
  const bool shifted = known > 0 && (value > known * kShift || value < known / kShift);
  // One odd part is no shift: it takes as many as a trial does.
  if (shifted) spot.costs[step][since % 3].store(value, std::memory_order_relaxed);
  const double now_known = median(spot, step);
  const bool has_shifted = known > 0 && (now_known > known * kShift || now_known < known / kShift);
  if (!has_shifted && since < kLookAgain) return;
  for (auto& tries : spot.tries) tries.store(0, std::memory_order_relaxed);
  spot.since.store(0, std::memory_order_relaxed);
  spot.settled.store(false, std::memory_order_relaxed);
}

// Moves to the better neighbour, if there is one; else this is it.
void Tuner::settle(Spot& spot) {
  std::uint32_t best = std::min(spot.best.load(std::memory_order_relaxed), std::uint32_t{top()});
  if (next_trial(spot, best) != kSteps) return;
  const double known = median(spot, best);
  std::uint32_t better = best;
  double least = known * kMargin;
  for (const unsigned step : {best - 1, best + 1}) {
    if (step > top()) continue;  // Also the one below none.
    const double cost = median(spot, step);
    if (cost >= least) continue;
    least = cost;
    better = step;
  }
  spot.best.store(better, std::memory_order_relaxed);
  if (better == best) {
    spot.since.store(0, std::memory_order_relaxed);
    spot.settled.store(true, std::memory_order_relaxed);
  }
}

Tuner::Finding Tuner::finding(const Kind& kind) const {
  const Spot& known = spot(kind);
  const std::uint32_t best = std::min(known.best.load(std::memory_order_relaxed), std::uint32_t{top()});
  return {hands_at(best), known.settled.load(std::memory_order_relaxed), static_cast<double>(median(known, best))};
}

}  // namespace penstock::core
