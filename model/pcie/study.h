// SPDX-License-Identifier: Apache-2.0

// Questions that take more than one run: which streams, and how many of them, give the most together, which constants
// moved a result, and what fences are good for. All run a workload on the machine anew each time.
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
  std::vector<std::size_t> chosen;  // Which of the workload's, in their order.
};
// How the streams of each count were found.
enum class Search : std::uint8_t {
  all,     // Every choice was tried, with fewer bytes than the answer.
  spread,  // One after the other, the one next whose stations are used least so far.
  none,    // There are too many: the first.
};
constexpr std::size_t kTriedMax = 8;
constexpr std::size_t kSpreadMax = 4096;
struct Sweep {
  Search search = Search::all;
  std::vector<SweepPoint> points;
  std::size_t best_streams = 0;  // The fewest that come within half a per cent of the most.
};
// simulate or simulate_flows.
using Simulator = Outcome (*)(const Network&, const Workload&);
// Each stream with at most `bytes_max`; with more than `points_max` streams, at so many counts between.
Sweep sweep_streams(const Machine& machine, const Workload& workload, const PcieConstants& constants,
                    Simulator simulator, std::uint64_t bytes_max = std::uint64_t{256} << 20,
                    std::size_t points_max = 16);

// A workload of relaxed ordering as it is, with fences of either kind, and ordered strictly. Rates are of a pipeline's
// model: how often bytes are overtaken on a machine that exists is not known.
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
