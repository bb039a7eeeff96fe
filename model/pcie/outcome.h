// SPDX-License-Identifier: Apache-2.0

// What a simulation found: of each stream its rate and latencies, of each station how busy it was and with what, and
// which station binds. Both simulators fill it; the flow-level one leaves latencies and timelines empty.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/pcie/latency_histogram.h"
#include "model/pcie/network.h"
#include "model/pcie/timeline.h"

namespace penstock::model {

constexpr std::uint32_t kNoStation = UINT32_MAX;
// A station this busy is what holds a stream back; below, its depth and latency do.
constexpr double kBindingUtilisation = 0.9;

struct StreamResult {
  std::string name;
  std::uint64_t bytes = 0;  // That arrived.
  std::uint64_t ios = 0;
  double begin_seconds = 0;
  double end_seconds = 0;
  double bytes_per_second = 0;         // Over its own time.
  double shared_bytes_per_second = 0;  // While all streams ran.
  double fence_seconds = 0;            // That I/Os of a pipeline waited for fences, all together.
  std::uint64_t stale_ios = 0;         // Of a pipeline, sent before all of their bytes had come,
  std::uint64_t stale_bytes = 0;       // and how many of these.
  LatencyHistogram latency;
  std::uint32_t busiest_station = kNoStation;  // Of its routes.
  bool is_bound_by_station = false;            // Otherwise by depth and latency.
};

struct StationResult {
  double busy_seconds = 0;    // All of it,
  double change_seconds = 0;  // and of that: changing streams,
  double fence_seconds = 0;   // waiting for fences.
  double payload_bytes = 0;
  double wire_bytes = 0;     // With packet headers.
  std::uint64_t pieces = 0;  // Served one by one; 0 at flow level.
  double utilisation = 0;
};

struct Outcome {
  std::vector<StreamResult> streams;
  std::vector<StationResult> stations;  // As in the Network.
  std::uint64_t bytes = 0;
  double seconds = 0;  // From 0 to the last arrival.
  double bytes_per_second = 0;
  double shared_bytes_per_second = 0;
  std::uint32_t busiest_station = kNoStation;
  std::uint64_t events = 0;
  std::uint64_t event_hash = 0;  // Of all events in their order: equal runs have equal hashes.
  Timeline station_busy;         // Seconds.
  Timeline stream_bytes;
};

// Fills in what follows from the rest: rates, utilisations, what binds.
void conclude(const Network& network, Outcome& result);

// Throws std::logic_error where the run contradicts itself: bytes lost or doubled, a station busier than time allows or
// faster than its rate.
void check_conservation(const Network& network, const Workload& workload, const Outcome& result);

}  // namespace penstock::model
