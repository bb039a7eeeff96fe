// SPDX-License-Identifier: Apache-2.0

// The burst simulator's state of everything that moves or serves. Only for simulator.cc.
#pragma once

#include <cstdint>
#include <deque>

#include "model/pcie/event_queue.h"
#include "model/pcie/fair_queue.h"
#include "model/pcie/network.h"
#include "model/pcie/pool.h"

namespace penstock::model {

using Index = std::uint32_t;

enum class EventKind : std::uint8_t { station_done, io_ready, io_done, io_arrives };
constexpr unsigned kKindShift = 30;
constexpr Index kIndexMask = (Index{1} << kKindShift) - 1;

struct Burst {
  Index io = 0;
  Index hop = 0;
  std::uint32_t bytes = 0;
  bool is_first = false;  // The first burst of its I/O.
  Index next = kNil;      // The next burst in its lane.
};

struct Io {
  Index stream = 0;
  Index route = 0;
  Index leg = 0;
  Index next = kNil;  // The next I/O in the lane where its leg begins.
  std::uint64_t bytes = 0;
  std::uint64_t to_send = 0;    // Bytes left on this leg.
  std::uint64_t to_arrive = 0;  // Bytes left on this leg.
  Picoseconds start = 0;
  bool is_with_engine = false;  // It has a place at the engine of this leg.
  // An I/O announced ahead continues as another one, while its last bytes still travel as this one.
  bool is_told = false;         // The completion notice is on its way.
  bool has_gone_ahead = false;  // It continues as `ahead`, which is kNil once that has ended.
  Index ahead = kNil;
  Index behind = kNil;  // In the other one: the I/O whose bytes it sends; kNil once all have arrived.
  bool is_stale = false;
};

// A queue of bursts; at the start of a leg, of I/Os from which bursts are cut.
struct LaneState {
  Index head = kNil;
  Index tail = kNil;
  double tag = 0;
  std::uint64_t held_bytes = 0;  // Bytes in its buffer or on the way there.
  Index first_waiter = kNil;     // Lanes upstream that wait for room here.
  Index last_waiter = kNil;
  Index next_waiter = kNil;  // The next waiter in the list in which this lane waits.
};

struct StationState {
  FairQueue ready;
  Index burst = kNil;  // In service.
  Index last_stream = kNil;
  Picoseconds last_end = 0;
};

struct StreamState {
  std::uint64_t to_issue = 0;
  std::uint64_t arrived = 0;
  Index issued = 0;
  Index in_flight = 0;
};

struct DriveState {
  unsigned in_use = 0;
  std::deque<Index> waiting;
};

struct EngineState {
  unsigned in_use = 0;
  std::deque<Index> waiting;
};

// The precomputed cost of serving a burst at a hop.
struct HopCost {
  Picoseconds whole_burst = 0;
  double whole_burst_wire = 0;
};

inline HopCost cost_of(const Hop& hop, std::uint64_t burst_bytes) {
  const auto bytes = static_cast<double>(burst_bytes);
  return {to_picoseconds(hop.seconds(bytes)), wire_bytes(bytes, hop.packet_bytes, hop.header_bytes) * hop.passes};
}

}  // namespace penstock::model
