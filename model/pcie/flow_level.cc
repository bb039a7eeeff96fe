// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/flow_level.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace penstock::model {
namespace {

constexpr double kSame = 1e-9;  // Relative tolerance: streams that end within it end in one event.

struct Use {
  std::uint32_t station = 0;
  double seconds_per_byte = 0;
};

struct Flow {
  std::vector<Use> uses;
  double weight = 1;
  double rate_max = HUGE_VAL;  // The rate limit by its depth.
  double rate = 0;
  double begin = 0;
  double left = 0;  // Bytes.
  bool is_running() const { return left > 0; }
};

class FlowSimulation {
 public:
  FlowSimulation(const Network& network, const Workload& workload) : network_(network), workload_(workload) {
    outcome_.streams.resize(workload.streams.size());
    outcome_.stations.resize(network.stations.size());
    count_users();
    for (std::size_t i = 0; i < workload.streams.size(); ++i) flows_.push_back(flow_of(i));
  }

  Outcome run() {
    double now = 0;
    while (true) {
      share(now);
      const double end = next_event(now);
      if (!std::isfinite(end)) break;
      advance(now, end);
      now = end;
      ++outcome_.events;
    }
    conclude(network_, outcome_);
    check_conservation(network_, workload_, outcome_);
    return std::move(outcome_);
  }

 private:
  void count_users() {
    users_.assign(network_.stations.size(), 0);
    for (const StreamPlan& plan : network_.plans) {
      std::vector<std::uint32_t> stations;
      for (const Route& route : plan.routes) {
        for (const Leg& leg : route.legs) {
          for (const Hop& hop : network_.leg_hops(leg)) stations.push_back(hop.station);
        }
      }
      std::sort(stations.begin(), stations.end());
      stations.erase(std::unique(stations.begin(), stations.end()), stations.end());
      for (const std::uint32_t station : stations) ++users_[station];
    }
  }

  double cost(const Hop& hop, const StreamPlan& plan, double io_bytes) const {
    const Station& station = network_.stations[hop.station];
    const double burst = std::min(static_cast<double>(workload_.burst_bytes), io_bytes);
    double seconds = hop.seconds(burst) / burst;
    seconds = std::max(seconds, station.command_seconds / io_bytes);
    if (hop.has_fences) seconds += plan.fence_seconds / plan.fence_bytes;
    if (station.change_seconds > 0 && users_[hop.station] > 1) {
      seconds += std::ceil(burst / station.interleave_bytes) * station.change_seconds / burst;
    }
    return seconds;
  }

  Flow flow_of(std::size_t index) {
    const Stream& stream = workload_.streams[index];
    const StreamPlan& plan = network_.plans[index];
    const double share = 1.0 / static_cast<double>(plan.routes.size());
    const auto io_bytes = static_cast<double>(stream.io_bytes);
    std::unordered_map<std::uint32_t, double> seconds;
    double latency = 0;
    for (const Route& route : plan.routes) {
      double route_seconds = route.latency_seconds + network_.drives[route.drive].access_seconds;
      for (const Leg& leg : route.legs) {
        double slowest = 0;
        for (const Hop& hop : network_.leg_hops(leg)) {
          const double here = cost(hop, plan, io_bytes);
          seconds[hop.station] += here * share;
          slowest = std::max(slowest, here);
        }
        route_seconds += slowest * io_bytes;
        if (leg.is_fenced) route_seconds += std::ceil(io_bytes / plan.fence_bytes) * plan.fence_seconds;
      }
      latency += route_seconds * share;
    }
    Flow flow;
    for (const auto& [station, each] : seconds) flow.uses.push_back({station, each});
    std::sort(flow.uses.begin(), flow.uses.end(), [](const Use& a, const Use& b) { return a.station < b.station; });
    flow.weight = workload_.arbitration == Arbitration::weighted_fair ? stream.weight : 1;
    flow.rate_max = stream.depth * io_bytes / (latency + plan.request_seconds);
    if (stream.arrivals_per_second > 0) flow.rate_max = stream.arrivals_per_second * io_bytes;
    flow.begin = stream.start_seconds;
    flow.left = static_cast<double>(stream.total_bytes);
    outcome_.streams[index].name = stream.name;
    outcome_.streams[index].begin_seconds = stream.start_seconds;
    return flow;
  }

  // Progressive filling: all rates rise together until a station is full or a stream reaches its limit by depth; these
  // are fixed, and the others rise further.
  void share(double now) {
    std::vector<double> free(network_.stations.size(), 1);
    std::vector<double> load(network_.stations.size(), 0);
    std::vector<std::size_t> rising;
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      flows_[i].rate = 0;
      if (!flows_[i].is_running() || flows_[i].begin > now) continue;
      rising.push_back(i);
      for (const Use& use : flows_[i].uses) load[use.station] += flows_[i].weight * use.seconds_per_byte;
    }
    while (!rising.empty()) {
      const double level = lowest_limit(rising, free, load);
      std::vector<std::size_t> still_rising;
      for (const std::size_t i : rising) {
        if (!is_stopped(flows_[i], level, free, load)) {
          still_rising.push_back(i);
          continue;
        }
        flows_[i].rate = level * flows_[i].weight;
      }
      for (const std::size_t i : rising) {
        for (const Use& use : flows_[i].uses) {
          if (flows_[i].rate == 0) continue;
          free[use.station] -= flows_[i].rate * use.seconds_per_byte;
          load[use.station] -= flows_[i].weight * use.seconds_per_byte;
        }
      }
      rising = std::move(still_rising);
    }
  }

  double lowest_limit(const std::vector<std::size_t>& rising, const std::vector<double>& free,
                      const std::vector<double>& load) const {
    double level = HUGE_VAL;
    for (const std::size_t i : rising) {
      level = std::min(level, flows_[i].rate_max / flows_[i].weight);
      for (const Use& use : flows_[i].uses) {
        level = std::min(level, std::max(free[use.station], 0.0) / load[use.station]);
      }
    }
    return std::max(level, 1e-3);  // A minimum, so that rounding never stops a stream for good.
  }

  bool is_stopped(const Flow& flow, double level, const std::vector<double>& free,
                  const std::vector<double>& load) const {
    if (flow.rate_max / flow.weight <= level * (1 + kSame)) return true;
    return std::any_of(flow.uses.begin(), flow.uses.end(),
                       [&](const Use& use) { return free[use.station] / load[use.station] <= level * (1 + kSame); });
  }

  double next_event(double now) const {
    double end = HUGE_VAL;
    for (const Flow& flow : flows_) {
      if (!flow.is_running()) continue;
      end = std::min(end, flow.begin > now ? flow.begin : now + flow.left / flow.rate);
    }
    return end;
  }

  void advance(double now, double end) {
    const double seconds = end - now;
    bool has_end = false;
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      Flow& flow = flows_[i];
      if (!flow.is_running() || flow.rate == 0) continue;
      const double bytes = std::min(flow.rate * seconds, flow.left);
      for (const Use& use : flow.uses) {
        outcome_.stations[use.station].busy_seconds += bytes * use.seconds_per_byte;
        outcome_.stations[use.station].payload_bytes += bytes;
      }
      flow.left -= bytes;
      const auto total = static_cast<double>(workload_.streams[i].total_bytes);
      if (flow.left > total * kSame) continue;
      flow.left = 0;
      has_end = true;
      outcome_.streams[i].bytes = workload_.streams[i].total_bytes;
      outcome_.streams[i].ios =
          (workload_.streams[i].total_bytes + workload_.streams[i].io_bytes - 1) / workload_.streams[i].io_bytes;
      outcome_.streams[i].end_seconds = end;
    }
    if (has_end && !has_first_end_) note_first_end(end);
  }

  void note_first_end(double end) {
    has_first_end_ = true;
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      const double done = static_cast<double>(workload_.streams[i].total_bytes) - flows_[i].left;
      if (end > flows_[i].begin) outcome_.streams[i].shared_bytes_per_second = done / (end - flows_[i].begin);
    }
  }

  const Network& network_;
  const Workload& workload_;
  std::vector<std::uint32_t> users_;
  std::vector<Flow> flows_;
  bool has_first_end_ = false;
  Outcome outcome_;
};

}  // namespace

Outcome simulate_flows(const Network& network, const Workload& workload) {
  return FlowSimulation(network, workload).run();
}

}  // namespace penstock::model
