// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/study.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "model/pcie/flow_level.h"
#include "model/pcie/simulator.h"

namespace penstock::model {
namespace {

constexpr double kNearlyBest = 0.995;
constexpr std::uint64_t kTriedShare = 16;
constexpr double kStep = 0.05;
constexpr double kNothing = 1e-4;

std::vector<std::size_t> counts(std::size_t most, std::size_t points_max) {
  std::vector<std::size_t> chosen;
  const std::size_t points = std::min(most, points_max);
  for (std::size_t i = 1; i <= points; ++i) {
    const std::size_t count = (most * i + points / 2) / points;
    if (chosen.empty() || chosen.back() != count) chosen.push_back(std::max<std::size_t>(count, 1));
  }
  return chosen;
}

// The seconds per byte of each stream at each station of its routes.
std::vector<std::vector<std::pair<std::uint32_t, double>>> loads_of(const Network& network) {
  std::vector<std::vector<std::pair<std::uint32_t, double>>> loads(network.plans.size());
  for (std::size_t i = 0; i < network.plans.size(); ++i) {
    const auto& routes = network.plans[i].routes;
    for (const Route& route : routes) {
      for (const Leg& leg : route.legs) {
        for (const Hop& hop : network.leg_hops(leg)) {
          const double each = hop.seconds_per_byte * hop.passes / static_cast<double>(routes.size());
          loads[i].emplace_back(hop.station, each);
        }
      }
    }
  }
  return loads;
}

// Greedy order: the next stream is the one whose busiest station stays least busy; ties by all of its stations
// together.
std::vector<std::size_t> spread_order(const Network& network) {
  const auto loads = loads_of(network);
  std::vector<double> load(network.stations.size(), 0);
  std::vector<bool> is_taken(loads.size(), false);
  std::vector<std::size_t> order;
  while (order.size() < loads.size()) {
    std::size_t best = loads.size();
    std::pair<double, double> best_key;
    for (std::size_t i = 0; i < loads.size(); ++i) {
      if (is_taken[i]) continue;
      std::pair<double, double> key;
      for (const auto& [station, each] : loads[i]) {
        key.first = std::max(key.first, load[station] + each);
        key.second += load[station] * each;
      }
      if (best == loads.size() || key < best_key) best = i, best_key = key;
    }
    is_taken[best] = true;
    order.push_back(best);
    for (const auto& [station, each] : loads[best]) load[station] += each;
  }
  return order;
}

class StreamSearch {
 public:
  StreamSearch(const Machine& machine, const Workload& workload, const PcieConstants& constants, Simulator simulator)
      : machine_(machine), workload_(workload), constants_(constants), simulator_(simulator) {
    order_.resize(workload.streams.size());
    std::iota(order_.begin(), order_.end(), 0);
    if (search() != Search::none) order_ = spread_order(compile(machine, workload, constants));
  }

  Search search() const {
    if (workload_.streams.size() <= kTriedMax) return Search::all;
    return workload_.streams.size() <= kSpreadMax ? Search::spread : Search::none;
  }

  double rate(const std::vector<std::size_t>& chosen, std::uint64_t bytes_max) const {
    Workload some = workload_;
    some.streams.clear();
    for (const std::size_t index : chosen) {
      some.streams.push_back(workload_.streams[index]);
      some.streams.back().total_bytes = std::min(some.streams.back().total_bytes, bytes_max);
    }
    return simulator_(compile(machine_, some, constants_), some).shared_bytes_per_second;
  }

  // The spread choice, unless another choice of the same size is better by more than noise.
  std::vector<std::size_t> best_of(std::size_t count, std::uint64_t bytes_max) const {
    std::vector<std::size_t> best(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(count));
    std::sort(best.begin(), best.end());
    if (search() != Search::all || count == order_.size()) return best;
    double most = rate(best, bytes_max / kTriedShare) / kNearlyBest;
    for (unsigned mask = 1; mask < 1U << order_.size(); ++mask) {
      if (static_cast<std::size_t>(std::popcount(mask)) != count) continue;
      std::vector<std::size_t> others;
      for (std::size_t i = 0; i < order_.size(); ++i) {
        if ((mask >> i & 1) != 0) others.push_back(i);
      }
      const double found = rate(others, bytes_max / kTriedShare);
      if (found > most) most = found, best = std::move(others);
    }
    return best;
  }

 private:
  const Machine& machine_;
  const Workload& workload_;
  const PcieConstants& constants_;
  Simulator simulator_;
  std::vector<std::size_t> order_;
};

double total_rate(const MachineMaker& make, const Workload& workload, const PcieConstants& constants) {
  const Machine machine = make(constants);
  const Network network = compile(machine, workload, constants);
  return simulate_flows(network, workload).bytes_per_second;
}

double rate_with(const MachineMaker& make, const Workload& workload, PcieConstants constants,
                 const PcieConstantRow& row, double value) {
  constants.*row.value = value;
  return total_rate(make, workload, constants);
}

}  // namespace

Sweep sweep_streams(const Machine& machine, const Workload& workload, const PcieConstants& constants,
                    Simulator simulator, std::uint64_t bytes_max, std::size_t points_max) {
  const StreamSearch search(machine, workload, constants, simulator);
  Sweep sweep;
  sweep.search = search.search();
  double most = 0;
  for (const std::size_t count : counts(workload.streams.size(), points_max)) {
    std::vector<std::size_t> chosen = search.best_of(count, bytes_max);
    sweep.points.push_back({count, search.rate(chosen, bytes_max), std::move(chosen)});
    most = std::max(most, sweep.points.back().bytes_per_second);
  }
  const auto best = std::find_if(sweep.points.begin(), sweep.points.end(),
                                 [&](const SweepPoint& point) { return point.bytes_per_second >= kNearlyBest * most; });
  sweep.best_streams = best->streams;
  return sweep;
}

std::vector<OrderingRow> compare_orderings(const Machine& machine, Workload workload, const PcieConstants& constants) {
  std::vector<OrderingRow> rows;
  for (const auto& [ordering, fence] : {std::pair{Ordering::relaxed, FenceKind::none},
                                        {Ordering::relaxed, FenceKind::single},
                                        {Ordering::relaxed, FenceKind::coalesced},
                                        {Ordering::strict, FenceKind::none}}) {
    workload.ordering = ordering;
    for (Stream& each : workload.streams) each.fence = fence;
    const Outcome outcome = simulate(compile(machine, workload, constants), workload);
    OrderingRow row{ordering, fence, outcome.seconds, outcome.bytes_per_second, 0, 0, 0};
    for (const StreamResult& each : outcome.streams) {
      row.ios += each.ios;
      row.stale_ios += each.stale_ios;
      row.stale_bytes += each.stale_bytes;
    }
    rows.push_back(row);
  }
  return rows;
}

Sensitivity contention_sensitivity(const MachineMaker& make, const Workload& workload, const PcieConstants& constants) {
  Sensitivity sensitivity;
  sensitivity.result = "total_bytes_per_second";
  sensitivity.value = total_rate(make, workload, constants);
  for (const PcieConstantRow& row : pcie_constant_rows()) {
    const double usual = constants.*row.value;
    const double above = rate_with(make, workload, constants, row, usual * (1 + kStep));
    const double below = rate_with(make, workload, constants, row, usual * (1 - kStep));
    const auto at = [&](double value) {
      return value == usual ? sensitivity.value : rate_with(make, workload, constants, row, value);
    };
    Influence influence{row.name, (above - below) / (2 * kStep * sensitivity.value), at(row.low), at(row.high)};
    const double range = std::abs(influence.at_high - influence.at_low) / sensitivity.value;
    if (std::abs(influence.elasticity) > kNothing || range > kNothing) sensitivity.influences.push_back(influence);
  }
  std::stable_sort(
      sensitivity.influences.begin(), sensitivity.influences.end(),
      [](const Influence& a, const Influence& b) { return std::abs(a.elasticity) > std::abs(b.elasticity); });
  return sensitivity;
}

}  // namespace penstock::model
