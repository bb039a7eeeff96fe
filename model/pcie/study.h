// SPDX-License-Identifier: Apache-2.0

// Studies with several runs: which streams, and how many, have the highest total rate, which constants affect a result,
// and what fences change. Each point is a new run of a workload on the machine.
#pragma once

#include <functional>
#include <vector>

#include "model/pcie/machine.h"
#include "model/pcie/outcome.h"
#include "model/pcie/workload.h"
#include "model/sensitivity.h"

namespace penstock::model {

struct SweepPoint {
  std::size_t streams = 0;
  double bytes_per_second = 0;
  std::vector<std::size_t> chosen;  // Indexes of the workload's streams, in order.
};
// How the streams of each count were found.
enum class Search : std::uint8_t {
  all,     // Every choice was tried, with fewer bytes than in the final run.
  spread,  // Greedy: the next stream is the one whose stations are used least so far.
  none,    // Too many streams: takes the first ones.
};
constexpr std::size_t kTriedMax = 8;
constexpr std::size_t kSpreadMax = 4096;
struct Sweep {
  Search search = Search::all;
  std::vector<SweepPoint> points;
  std::size_t best_streams = 0;  // The fewest streams within half a per cent of the best rate.
};
// simulate or simulate_flows.
using Simulator = Outcome (*)(const Network&, const Workload&);
// Gives each stream at most `bytes_max`; with more than `points_max` streams, samples so many counts.
Sweep sweep_streams(const Machine& machine, const Workload& workload, const PcieConstants& constants,
                    Simulator simulator, std::uint64_t bytes_max = std::uint64_t{256} << 20,
                    std::size_t points_max = 16);

// A workload with relaxed ordering, with either kind of fences, and with strict ordering. Rates are from a model of a
// pipeline: how often bytes are overtaken on real machines is unknown.
struct OrderingRow {
  Ordering ordering;
  FenceKind fence;
  double seconds;
  double bytes_per_second;
  std::uint64_t ios;
  std::uint64_t stale_ios;
  std::uint64_t stale_bytes;
};
std::vector<OrderingRow> compare_orderings(const Machine& machine, Workload workload, const PcieConstants& constants);

// `make` builds the machine from the constants. The result is the total rate, at flow level.
using MachineMaker = std::function<Machine(const PcieConstants&)>;
Sensitivity contention_sensitivity(const MachineMaker& make, const Workload& workload, const PcieConstants& constants);

}  // namespace penstock::model
