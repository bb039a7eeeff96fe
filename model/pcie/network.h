// SPDX-License-Identifier: Apache-2.0

// A machine and a workload, compiled for simulation: stations with queues, and for each stream the routes through them.
// A station is anything that serves one piece at a time: one direction of a link, one direction of a switch's crossbar,
// a root complex, host memory, the CPUs that copy, a drive's media, a wire. Both simulators, by bursts and by flows,
// run on the same Network.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/pcie/machine.h"
#include "model/pcie/workload.h"

namespace penstock::model {

enum class StationKind : std::uint8_t { link, crossbar, complex, memory, copy, socket_link, media, wire };
const char* station_kind_name(StationKind kind);

struct Station {
  std::string name;  // "gpu0 down": towards gpu0.
  StationKind kind = StationKind::link;
  double rate = 0;              // Bytes a second on the wire; 0: unlimited. For media: the read rate.
  double change_seconds = 0;    // Cost of each change of stream,
  double interleave_bytes = 0;  // which happens after so many bytes while several streams wait.
  double command_seconds = 0;   // Least time per I/O.
  bool is_bounded = false;      // It has a port's buffers: bytes wait upstream while they are full.
};

// One station on a route, and the cost of a stream's bytes there.
struct Hop {
  std::uint32_t station = 0;
  std::uint32_t lane = 0;       // The queue of the bytes; lanes are numbered over all stations.
  double seconds_per_byte = 0;  // Time per byte on the wire.
  double packet_bytes = 0;      // Payload of a packet; 0: no packets here.
  double header_bytes = 0;
  double passes = 1;  // How often the bytes pass: a copy reads and writes memory.
  bool has_fences = false;
  bool is_source = false;  // The first hop of a leg: bytes start here.

  double seconds(double bytes) const;  // Time of one piece alone, without fences, changes and commands.
};

// A part of an I/O's route; the I/O must have arrived as a whole before the next leg.
struct Leg {
  std::uint32_t hop_begin = 0;
  std::uint32_t hop_end = 0;
  std::uint32_t engine = 0;    // The engine that moves it, an index of Network::engines; 0: none.
  bool is_told_ahead = false;  // The next leg may begin before the last bytes have arrived.
  bool is_fenced = false;      // An I/O waits for its fences before it begins; other I/Os pass meanwhile.
};

// An engine that carries the I/Os of a leg, `depth` at a time.
struct Engine {
  std::string name;
  unsigned depth = 0;  // 0: any number.
};

struct Route {
  std::vector<Leg> legs;
  double latency_seconds = 0;  // Latency of all switches and roots on the route, once per I/O.
  std::uint32_t drive = 0;     // The drive whose queue holds the I/O; an index of Network::drives.
  std::size_t drive_leg = 0;   // Of a read: the leg after which it leaves the queue.
};

struct Drive {
  std::string name;
  unsigned queue = 0;  // 0: any number.
  double access_seconds = 0;
  double jitter = 0;
};

struct Lane {
  std::uint32_t station = 0;
  double weight = 1;
  bool is_source = false;  // I/Os wait here to begin a leg.
};

struct StreamPlan {
  std::vector<Route> routes;  // I/Os use the routes in turn.
  double request_seconds = 0;
  double fence_seconds = 0;
  double fence_bytes = 0;
};

struct Network {
  std::vector<Station> stations;
  std::vector<Lane> lanes;
  std::vector<Hop> hops;  // The hops of all routes, leg after leg.
  std::vector<Drive> drives;
  std::vector<Engine> engines;
  std::vector<StreamPlan> plans;  // One plan per stream.
  double port_buffer_bytes = 0;

  std::span<const Hop> leg_hops(const Leg& leg) const {
    return {hops.data() + leg.hop_begin, leg.hop_end - leg.hop_begin};
  }
};

// Throws InputError for streams whose ends do not exist or are not connected.
Network compile(const Machine& machine, const Workload& workload, const PcieConstants& constants = {});

}  // namespace penstock::model
