// SPDX-License-Identifier: Apache-2.0

// What the burst simulator keeps of everything that moves or serves. Of simulator.cc alone.
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
  bool is_first = false;  // Of its I/O.
  Index next = kNil;      // In its lane.
};

struct Io {
  Index stream = 0;
  Index route = 0;
  Index leg = 0;
  Index next = kNil;  // In the lane where its leg begins.
  std::uint64_t bytes = 0;
  std::uint64_t to_send = 0;    // On this leg.
  std::uint64_t to_arrive = 0;  // On this leg.
  Picoseconds start = 0;
  bool is_with_engine = false;  // It has its place with the engine of this leg.
  // Told ahead, an I/O goes on as another one while its last bytes are on their way as this one.
  bool is_told = false;         // Word is on its way.
  bool has_gone_ahead = false;  // As `ahead`, kNil when that has ended.
  Index ahead = kNil;
  Index behind = kNil;  // Of the other: whose bytes it sends. kNil when all of them have arrived.
  bool is_stale = false;
};

// A queue of bursts, or where a leg begins, of I/Os that bursts are cut from.
struct LaneState {
  Index head = kNil;
  Index tail = kNil;
  double tag = 0;
  std::uint64_t held_bytes = 0;  // In its buffer or on the way there.
  Index first_waiter = kNil;     // Lanes upstream that wait for room here.
  Index last_waiter = kNil;
  Index next_waiter = kNil;  // Where this one waits itself.
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

// What serving a burst at a hop takes, worked out once.
struct HopCost {
  Picoseconds whole_burst = 0;
  double whole_burst_wire = 0;
};

inline HopCost cost_of(const Hop& hop, std::uint64_t burst_bytes) {
  const auto bytes = static_cast<double>(burst_bytes);
  return {to_picoseconds(hop.seconds(bytes)), wire_bytes(bytes, hop.packet_bytes, hop.header_bytes) * hop.passes};
}

}  // namespace penstock::model
