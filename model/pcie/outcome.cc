// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/outcome.h"

#include <fmt/format.h>

#include <stdexcept>

namespace penstock::model {
namespace {

constexpr double kSlack = 1e-6;            // Tolerance for rounding of sums.
constexpr double kPieceSeconds = 0.5e-12;  // Each piece's time is rounded to a picosecond.

void name_busiest(const Network& network, const StreamPlan& plan, const std::vector<StationResult>& stations,
                  StreamResult& stream) {
  for (const Route& route : plan.routes) {
    for (const Leg& leg : route.legs) {
      for (const Hop& hop : network.leg_hops(leg)) {
        const bool is_first = stream.busiest_station == kNoStation;
        if (is_first || stations[hop.station].utilisation > stations[stream.busiest_station].utilisation) {
          stream.busiest_station = hop.station;
        }
      }
    }
  }
  stream.is_bound_by_station = stations[stream.busiest_station].utilisation >= kBindingUtilisation;
}

[[noreturn]] void contradict(const std::string& what) { throw std::logic_error("the simulation is wrong: " + what); }

}  // namespace

void conclude(const Network& network, Outcome& result) {
  for (const StreamResult& stream : result.streams) {
    result.seconds = std::max(result.seconds, stream.end_seconds);
    result.bytes += stream.bytes;
  }
  if (result.seconds > 0) result.bytes_per_second = static_cast<double>(result.bytes) / result.seconds;
  for (std::uint32_t i = 0; i < result.stations.size(); ++i) {
    StationResult& station = result.stations[i];
    station.utilisation = result.seconds > 0 ? station.busy_seconds / result.seconds : 0;
    const bool is_first = result.busiest_station == kNoStation;
    if (is_first || station.utilisation > result.stations[result.busiest_station].utilisation) {
      result.busiest_station = i;
    }
  }
  for (std::size_t i = 0; i < result.streams.size(); ++i) {
    StreamResult& stream = result.streams[i];
    const double seconds = stream.end_seconds - stream.begin_seconds;
    if (seconds > 0) stream.bytes_per_second = static_cast<double>(stream.bytes) / seconds;
    result.shared_bytes_per_second += stream.shared_bytes_per_second;
    name_busiest(network, network.plans[i], result.stations, stream);
  }
}

void check_conservation(const Network& network, const Workload& workload, const Outcome& result) {
  for (std::size_t i = 0; i < workload.streams.size(); ++i) {
    const Stream& stream = workload.streams[i];
    if (result.streams[i].bytes != stream.total_bytes) {
      contradict(fmt::format("of stream '{}' {} of {} bytes arrived", stream.name, result.streams[i].bytes,
                             stream.total_bytes));
    }
  }
  for (std::size_t i = 0; i < network.stations.size(); ++i) {
    const StationResult& station = result.stations[i];
    const std::string& name = network.stations[i].name;
    if (station.busy_seconds > result.seconds * (1 + kSlack)) contradict(name + " is busier than time allows");
    const double seconds = (station.busy_seconds + kPieceSeconds * static_cast<double>(station.pieces)) * (1 + kSlack);
    const bool is_link = network.stations[i].kind == StationKind::link;
    if (is_link && station.wire_bytes > network.stations[i].rate * seconds)
      contradict(name + " is faster than its rate");
  }
}

}  // namespace penstock::model
