// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/study.h"

#include <algorithm>
#include <cmath>

#include "model/pcie/flow_level.h"

namespace penstock::model {
namespace {

constexpr double kNearlyBest = 0.995;
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
  Sweep sweep;
  double most = 0;
  for (const std::size_t count : counts(workload.streams.size(), points_max)) {
    Workload some = workload;
    some.streams.resize(count);
    for (Stream& stream : some.streams) stream.total_bytes = std::min(stream.total_bytes, bytes_max);
    const Network network = compile(machine, some, constants);
    sweep.points.push_back({count, simulator(network, some).shared_bytes_per_second});
    most = std::max(most, sweep.points.back().bytes_per_second);
  }
  const auto best = std::find_if(sweep.points.begin(), sweep.points.end(),
                                 [&](const SweepPoint& point) { return point.bytes_per_second >= kNearlyBest * most; });
  sweep.best_streams = best->streams;
  return sweep;
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
