// SPDX-License-Identifier: Apache-2.0

// The result of a simulation: each stream's rate and latencies, each station's utilisation and its causes, and the
// bottleneck. Both simulators fill it; the flow-level one leaves latencies and timelines empty.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/pcie/latency_histogram.h"
#include "model/pcie/network.h"
#include "model/pcie/timeline.h"

namespace penstock::model {

constexpr std::uint32_t kNoStation = UINT32_MAX;
// A station that is at least this busy limits a stream; otherwise depth and latency do.
constexpr double kBindingUtilisation = 0.9;

struct StreamResult {
  std::string name;
  std::uint64_t bytes = 0;  // That arrived.
  std::uint64_t ios = 0;
  double begin_seconds = 0;
  double end_seconds = 0;
  double bytes_per_second = 0;         // Over the stream's own time.
  double shared_bytes_per_second = 0;  // While all streams ran.
  double fence_seconds = 0;            // Total time that I/Os of a pipeline waited for fences.
  std::uint64_t stale_ios = 0;         // I/Os of a pipeline sent before all of their bytes had arrived,
  std::uint64_t stale_bytes = 0;       // and how many of their bytes had not.
  LatencyHistogram latency;
  std::uint32_t busiest_station = kNoStation;  // The busiest station of its routes.
  bool is_bound_by_station = false;            // False: depth and latency limit it.
};

struct StationResult {
  double busy_seconds = 0;    // Total busy time,
  double change_seconds = 0;  // the part for changing streams,
  double fence_seconds = 0;   // and the part for fences.
  double payload_bytes = 0;
  double wire_bytes = 0;     // With packet headers.
  std::uint64_t pieces = 0;  // Number of pieces served; 0 at flow level.
  double utilisation = 0;
};

struct Outcome {
  std::vector<StreamResult> streams;
  std::vector<StationResult> stations;  // In the order of the Network.
  std::uint64_t bytes = 0;
  double seconds = 0;  // From 0 to the last arrival.
  double bytes_per_second = 0;
  double shared_bytes_per_second = 0;
  std::uint32_t busiest_station = kNoStation;
  std::uint64_t events = 0;
  std::uint64_t event_hash = 0;  // Hash of all events in order: equal runs have equal hashes.
  Timeline station_busy;         // Seconds.
  Timeline stream_bytes;
};

// Computes the derived values: rates, utilisations, bottleneck.
void conclude(const Network& network, Outcome& result);

// Throws std::logic_error if the run is inconsistent: bytes lost or duplicated, a station busier than time allows or
// faster than its rate.
void check_conservation(const Network& network, const Workload& workload, const Outcome& result);

}  // namespace penstock::model
