// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/simulator.h"

#include <cmath>
#include <random>
#include <stdexcept>
#include <utility>

#include "model/pcie/event_queue.h"
#include "model/pcie/pool.h"
#include "model/pcie/simulator_state.h"

namespace penstock::model {
namespace {

class Simulation {
 public:
  Simulation(const Network& network, const Workload& workload)
      : network_(network), workload_(workload), random_(workload.seed), lanes_(network.lanes.size()),
        stations_(network.stations.size()), streams_(network.plans.size()), drives_(network.drives.size()),
        engines_(network.engines.size()) {
    result_.streams.resize(network.plans.size());
    result_.stations.resize(network.stations.size());
    result_.station_busy = Timeline(network.stations.size());
    result_.stream_bytes = Timeline(network.plans.size());
    room_ = std::max<std::uint64_t>(static_cast<std::uint64_t>(network.port_buffer_bytes), 2 * workload.burst_bytes);
    for (const Hop& hop : network.hops) costs_.push_back(cost_of(hop, workload.burst_bytes));
  }

  Outcome run() {
    for (Index i = 0; i < streams_.size(); ++i) begin_stream(i);
    while (!events_.empty()) {
      const Event event = events_.pop();
      now_ = event.time;
      ++result_.events;
      result_.event_hash = (result_.event_hash ^ (event.time + event.what)) * 0x9e3779b97f4a7c15U;
      handle(event);
    }
    finish();
    return std::move(result_);
  }

 private:
  void schedule(Picoseconds time, EventKind kind, Index index) {
    if (time >= kForever) throw InputError("this would run for more than a week of simulated time: a rate is too low");
    events_.push(time, static_cast<Index>(kind) << kKindShift | index);
  }

  void handle(const Event& event) {
    const Index index = event.what & kIndexMask;
    switch (static_cast<EventKind>(event.what >> kKindShift)) {
      case EventKind::station_done: end_service(index); break;
      case EventKind::io_ready: go_on(index); break;
      case EventKind::io_done: end_io(index); break;
      case EventKind::io_arrives: io_arrives(index); break;
    }
  }

  // ---- Streams and I/Os

  void begin_stream(Index index) {
    const Stream& stream = workload_.streams[index];
    streams_[index].to_issue = stream.total_bytes;
    const Picoseconds start = to_picoseconds(stream.start_seconds);
    result_.streams[index].name = stream.name;
    result_.streams[index].begin_seconds = stream.start_seconds;
    const bool is_open = stream.arrivals_per_second > 0;
    const std::uint64_t ios = (stream.total_bytes + stream.io_bytes - 1) / stream.io_bytes;
    const auto at_once = static_cast<unsigned>(std::min<std::uint64_t>(stream.depth, ios));
    for (unsigned i = 0; i < (is_open ? 1 : at_once); ++i) {
      schedule(start + (is_open ? time_to_next(stream) : 0), EventKind::io_arrives, index);
    }
  }

  double random_share() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  Picoseconds time_to_next(const Stream& stream) {
    return to_picoseconds(-std::log1p(-random_share()) / stream.arrivals_per_second);
  }

  void io_arrives(Index index) {
    const Stream& stream = workload_.streams[index];
    issue(index);
    const bool is_open = stream.arrivals_per_second > 0;
    if (is_open && streams_[index].to_issue > 0) {
      schedule(now_ + time_to_next(stream), EventKind::io_arrives, index);
    }
  }

  void issue(Index index) {
    StreamState& state = streams_[index];
    const Index io_index = ios_.take();
    Io& io = ios_[io_index];
    io = Io{};
    io.stream = index;
    io.route = state.issued++ % static_cast<Index>(network_.plans[index].routes.size());
    io.bytes = std::min(workload_.streams[index].io_bytes, state.to_issue);
    io.start = now_;
    state.to_issue -= io.bytes;
    ++state.in_flight;
    DriveState& drive = drives_[route_of(io).drive];
    const unsigned most = network_.drives[route_of(io).drive].queue;
    if (most != 0 && drive.in_use >= most) {
      drive.waiting.push_back(io_index);
    } else {
      command(io_index);
    }
  }

  // The drive accepts the command; its first bytes are ready after the access time.
  void command(Index io_index) {
    const Io& io = ios_[io_index];
    ++drives_[route_of(io).drive].in_use;
    const Drive& drive = network_.drives[route_of(io).drive];
    const double access = drive.access_seconds * (1 + drive.jitter * (random_share() - 0.5));
    schedule(now_ + to_picoseconds(network_.plans[io.stream].request_seconds + access), EventKind::io_ready, io_index);
  }

  void release_drive(Index drive_index) {
    DriveState& drive = drives_[drive_index];
    --drive.in_use;
    if (drive.waiting.empty()) return;
    const Index next = drive.waiting.front();
    drive.waiting.pop_front();
    command(next);
  }

  const Route& route_of(const Io& io) const { return network_.plans[io.stream].routes[io.route]; }
  const Leg& leg_of(const Io& io) const { return route_of(io).legs[io.leg]; }

  void go_on(Index io_index) {
    const Io& io = ios_[io_index];
    if (io.is_told) return hear(io_index);
    io.is_with_engine ? begin_leg(io_index) : enter_leg(io_index);
  }

  // The I/O takes a place at the engine of its leg and frees its previous one, or waits where it is.
  void enter_leg(Index io_index) {
    Io& io = ios_[io_index];
    const Leg& leg = leg_of(io);
    EngineState& engine = engines_[leg.engine];
    const unsigned most = network_.engines[leg.engine].depth;
    if (most != 0 && engine.in_use >= most) {
      engine.waiting.push_back(io_index);
      return;
    }
    ++engine.in_use;
    io.is_with_engine = true;
    if (io.leg > 0 && !is_behind_still_here(io)) leave_engine(route_of(io).legs[io.leg - 1].engine);
    leg.is_fenced ? wait_for_fences(io_index) : begin_leg(io_index);
  }

  void leave_engine(Index engine_index) {
    EngineState& engine = engines_[engine_index];
    --engine.in_use;
    if (engine.waiting.empty()) return;
    const Index next = engine.waiting.front();
    engine.waiting.pop_front();
    enter_leg(next);
  }

  void wait_for_fences(Index io_index) {
    const Io& io = ios_[io_index];
    const StreamPlan& plan = network_.plans[io.stream];
    const double seconds = std::ceil(static_cast<double>(io.bytes) / plan.fence_bytes) * plan.fence_seconds;
    result_.streams[io.stream].fence_seconds += seconds;
    schedule(now_ + to_picoseconds(seconds), EventKind::io_ready, io_index);
  }

  void begin_leg(Index io_index) {
    Io& io = ios_[io_index];
    io.to_send = io.to_arrive = io.bytes;
    io.next = kNil;
    const Hop& hop = network_.hops[leg_of(io).hop_begin];
    append(hop.lane, io_index, ios_);
    if (lanes_[hop.lane].head == io_index) line_up(hop.lane, next_piece(io));
    start(hop.station);
  }

  // The part left behind holds the place in the previous leg, and frees it itself.
  bool is_behind_still_here(const Io& io) const { return io.behind != kNil && io.leg == ios_[io.behind].leg + 1; }

  // Sends a burst's completion notice along its route, at the speed of a burst alone: it overtakes waiting bursts.
  void tell_ahead(const Burst& last) {
    Picoseconds alone = 1;
    for (Index hop = last.hop + 1; hop < leg_of(ios_[last.io]).hop_end; ++hop) {
      alone += cost_of(network_.hops[hop], last.bytes).whole_burst;
    }
    ios_[last.io].is_told = true;
    schedule(now_ + alone, EventKind::io_ready, last.io);
  }

  void hear(Index io_index) {
    ios_[io_index].is_told = false;
    if (!leg_of(ios_[io_index]).is_told_ahead) return;  // All bytes had arrived already.
    const Index ahead_index = ios_.take();
    Io& io = ios_[io_index];
    Io& ahead = ios_[ahead_index];
    ahead = io;
    ahead.next = kNil;
    ahead.behind = io_index;
    ahead.is_with_engine = false;
    ++ahead.leg;
    io.has_gone_ahead = true;
    io.ahead = ahead_index;
    enter_leg(ahead_index);
  }

  // The last bytes of an announced I/O have arrived: its place goes to the I/O ahead, if that still waits for the next.
  void end_behind(Index io_index) {
    const Io& io = ios_[io_index];
    const Index engine = leg_of(io).engine;
    bool is_taken_over = false;
    if (io.ahead != kNil) {
      Io& ahead = ios_[io.ahead];
      is_taken_over = ahead.leg == io.leg + 1 && !ahead.is_with_engine;
      ahead.behind = kNil;
    }
    ios_.give_back(io_index);
    if (!is_taken_over) leave_engine(engine);
  }

  // Counts bytes that are sent from memory before they have arrived there.
  void note_stale(Io& io, std::uint32_t bytes) {
    if (!is_behind_still_here(io)) return;
    const Io& data = ios_[io.behind];
    const std::uint64_t sent = io.bytes - io.to_send + bytes, arrived = data.bytes - data.to_arrive;
    if (sent <= arrived) return;
    StreamResult& stream = result_.streams[io.stream];
    stream.stale_bytes += std::min<std::uint64_t>(bytes, sent - arrived);
    if (!std::exchange(io.is_stale, true)) ++stream.stale_ios;
  }

  void end_leg(Index io_index) {
    Io& io = ios_[io_index];
    const Route& route = route_of(io);
    const bool is_last = io.leg + 1 == route.legs.size();
    const bool is_drive_done = workload_.streams[io.stream].is_write ? is_last : io.leg == route.drive_leg;
    if (is_drive_done) release_drive(route.drive);
    if (io.has_gone_ahead) return end_behind(io_index);
    if (is_last) {
      leave_engine(leg_of(io).engine);
      schedule(now_ + to_picoseconds(route.latency_seconds), EventKind::io_done, io_index);
      return;
    }
    ++io.leg;
    io.is_with_engine = false;
    enter_leg(io_index);
  }

  void end_io(Index io_index) {
    const Io io = ios_[io_index];
    if (io.behind != kNil) ios_[io.behind].ahead = kNil;
    ios_.give_back(io_index);
    StreamState& state = streams_[io.stream];
    StreamResult& stream = result_.streams[io.stream];
    stream.latency.add(now_ - io.start);
    ++stream.ios;
    stream.end_seconds = to_seconds(now_);
    state.arrived += io.bytes;
    --state.in_flight;
    result_.stream_bytes.add(io.stream, now_, static_cast<double>(io.bytes));
    const bool is_open = workload_.streams[io.stream].arrivals_per_second > 0;
    if (state.to_issue > 0 && !is_open) issue(io.stream);
    if (state.to_issue == 0 && state.in_flight == 0) note_first_end();
  }

  // Records the progress of all streams when the first one ends: until then all shared the machine.
  void note_first_end() {
    if (has_first_end_) return;
    has_first_end_ = true;
    for (Index i = 0; i < streams_.size(); ++i) {
      const double seconds = to_seconds(now_) - workload_.streams[i].start_seconds;
      if (seconds > 0) result_.streams[i].shared_bytes_per_second = static_cast<double>(streams_[i].arrived) / seconds;
    }
  }

  // ---- Lanes

  template <typename Items>
  void append(Index lane_index, Index item, Items& items) {
    LaneState& lane = lanes_[lane_index];
    (lane.head == kNil ? lane.head : items[lane.tail].next) = item;
    lane.tail = item;
  }

  std::uint32_t next_piece(const Io& io) const {
    return static_cast<std::uint32_t>(std::min(io.to_send, workload_.burst_bytes));
  }

  // Makes the lane's head eligible for service.
  void line_up(Index lane_index, std::uint32_t bytes) {
    const Lane& lane = network_.lanes[lane_index];
    stations_[lane.station].ready.push(lane_index, bytes, lane.weight, lanes_[lane_index].tag);
  }

  bool has_room(Index lane_index, std::uint32_t bytes) const {
    const LaneState& lane = lanes_[lane_index];
    const bool is_bounded = network_.stations[network_.lanes[lane_index].station].is_bounded;
    return !is_bounded || lane.held_bytes == 0 || lane.held_bytes + bytes <= room_;
  }

  void wait_for_room(Index lane_index, Index waiter) {
    LaneState& lane = lanes_[lane_index];
    lanes_[waiter].next_waiter = kNil;
    if (lane.first_waiter == kNil) {
      lane.first_waiter = waiter;
    } else {
      lanes_[lane.last_waiter].next_waiter = waiter;
    }
    lane.last_waiter = waiter;
  }

  // Returns a credit upstream. Waking one waiter is enough: when its burst leaves here, the next is woken.
  void give_room(Index lane_index, std::uint32_t bytes) {
    LaneState& lane = lanes_[lane_index];
    lane.held_bytes -= bytes;
    const Index waiter = lane.first_waiter;
    if (waiter == kNil) return;
    lane.first_waiter = lanes_[waiter].next_waiter;
    const Index station = network_.lanes[waiter].station;
    stations_[station].ready.push_again(waiter, lanes_[waiter].tag);
    start(station);
  }

  // ---- Stations

  Index hop_at_head(Index lane_index, bool is_source) const {
    const Index head = lanes_[lane_index].head;
    return is_source ? leg_of(ios_[head]).hop_begin : bursts_[head].hop;
  }

  bool is_source(Index lane_index) const { return network_.lanes[lane_index].is_source; }

  bool is_last_hop(Index hop_index, const Io& io) const { return hop_index + 1 == leg_of(io).hop_end; }

  void start(Index station_index) {
    StationState& station = stations_[station_index];
    while (station.burst == kNil && !station.ready.empty()) {
      const Index lane_index = station.ready.pop();
      const bool cuts = is_source(lane_index);
      const Index head = lanes_[lane_index].head;
      const Io& io = ios_[cuts ? head : bursts_[head].io];
      const Index hop_index = hop_at_head(lane_index, cuts);
      const std::uint32_t bytes = cuts ? next_piece(io) : bursts_[head].bytes;
      if (!is_last_hop(hop_index, io)) {
        const Index next_lane = network_.hops[hop_index + 1].lane;
        if (!has_room(next_lane, bytes)) {
          wait_for_room(next_lane, lane_index);
          continue;
        }
        lanes_[next_lane].held_bytes += bytes;
      }
      station.ready.serve(lanes_[lane_index].tag);
      serve(station_index, cuts ? cut(lane_index, hop_index, bytes) : take(lane_index), lane_index);
    }
  }

  // Cuts the next burst from the I/O at the head.
  Index cut(Index lane_index, Index hop_index, std::uint32_t bytes) {
    LaneState& lane = lanes_[lane_index];
    const Index burst_index = bursts_.take();
    Io& io = ios_[lane.head];
    if (io.behind != kNil) note_stale(io, bytes);
    bursts_[burst_index] = {lane.head, hop_index, bytes, io.to_send == io.bytes, kNil};
    io.to_send -= bytes;
    if (io.to_send == 0) lane.head = io.next;
    if (lane.head != kNil) line_up(lane_index, next_piece(ios_[lane.head]));
    return burst_index;
  }

  Index take(Index lane_index) {
    LaneState& lane = lanes_[lane_index];
    const Index burst_index = lane.head;
    lane.head = bursts_[burst_index].next;
    bursts_[burst_index].next = kNil;
    if (lane.head != kNil) line_up(lane_index, bursts_[lane.head].bytes);
    return burst_index;
  }

  void serve(Index station_index, Index burst_index, Index lane_index) {
    StationState& station = stations_[station_index];
    const Burst& burst = bursts_[burst_index];
    const Picoseconds time = service_time(station_index, burst, lane_index);
    station.burst = burst_index;
    station.last_stream = ios_[burst.io].stream;
    station.last_end = now_ + time;
    StationResult& result = result_.stations[station_index];
    result.busy_seconds += to_seconds(time);
    result.payload_bytes += burst.bytes;
    ++result.pieces;
    result_.station_busy.add(station_index, now_ + time, to_seconds(time));
    schedule(now_ + time, EventKind::station_done, station_index);
  }

  Picoseconds service_time(Index station_index, const Burst& burst, Index lane_index) {
    const Station& station = network_.stations[station_index];
    const Hop& hop = network_.hops[burst.hop];
    const HopCost cost = burst.bytes == workload_.burst_bytes ? costs_[burst.hop] : cost_of(hop, burst.bytes);
    StationResult& result = result_.stations[station_index];
    result.wire_bytes += cost.whole_burst_wire;
    Picoseconds time = cost.whole_burst;
    if (burst.is_first && station.command_seconds > 0) time = std::max(time, to_picoseconds(station.command_seconds));
    if (station.change_seconds > 0) {
      const double changes = changes_during(stations_[station_index], station, burst, lane_index);
      result.change_seconds += changes * station.change_seconds;
      time += to_picoseconds(changes * station.change_seconds);
    }
    if (hop.has_fences) {
      const StreamPlan& plan = network_.plans[ios_[burst.io].stream];
      const double seconds = burst.bytes / plan.fence_bytes * plan.fence_seconds;
      result.fence_seconds += seconds;
      time += to_picoseconds(seconds);
    }
    return time;
  }

  // While other streams have packets waiting, a burst counts as many turns; otherwise as one at most. A burst's packets
  // arrive at the rate of the previous hop, so other streams interleave, too, if one of their packets was served within
  // that time.
  double changes_during(const StationState& state, const Station& station, const Burst& burst, Index lane_index) const {
    const Index stream = ios_[burst.io].stream;
    const Index head = lanes_[lane_index].head;
    const bool own_lane_waits = head != kNil;
    const bool other_lanes_wait = state.ready.size() > (own_lane_waits ? 1U : 0U);
    const bool other_stream_follows =
        own_lane_waits && !is_source(lane_index) && ios_[bursts_[head].io].stream != stream;
    const bool is_changed = state.last_stream != kNil && state.last_stream != stream;
    const Picoseconds feed = network_.hops[burst.hop].is_source ? 0 : costs_[burst.hop - 1].whole_burst;
    const bool comes_between = is_changed && now_ <= state.last_end + feed;
    if (other_lanes_wait || other_stream_follows || comes_between)
      return std::ceil(burst.bytes / station.interleave_bytes);
    return is_changed ? 1 : 0;
  }

  void end_service(Index station_index) {
    StationState& station = stations_[station_index];
    const Index burst_index = station.burst;
    station.burst = kNil;
    const Burst burst = bursts_[burst_index];
    const Hop& hop = network_.hops[burst.hop];
    if (is_last_hop(burst.hop, ios_[burst.io])) {
      bursts_.give_back(burst_index);
      arrive(burst);
    } else {
      const Io& io = ios_[burst.io];
      if (hop.is_source && io.to_send == 0 && leg_of(io).is_told_ahead) tell_ahead(burst);
      move_on(burst_index);
    }
    if (!hop.is_source) give_room(hop.lane, burst.bytes);
    start(station_index);
  }

  void arrive(const Burst& burst) {
    Io& io = ios_[burst.io];
    io.to_arrive -= burst.bytes;
    if (io.to_arrive == 0) end_leg(burst.io);
  }

  void move_on(Index burst_index) {
    const Hop& hop = network_.hops[++bursts_[burst_index].hop];
    append(hop.lane, burst_index, bursts_);
    if (lanes_[hop.lane].head == burst_index) line_up(hop.lane, bursts_[burst_index].bytes);
    start(hop.station);
  }

  // ---- The end

  void finish() {
    if (ios_.in_use() != 0 || bursts_.in_use() != 0) throw std::logic_error("the simulation is wrong: bytes are stuck");
    for (Index i = 0; i < streams_.size(); ++i) result_.streams[i].bytes = streams_[i].arrived;
    conclude(network_, result_);
    check_conservation(network_, workload_, result_);
  }

  const Network& network_;
  const Workload& workload_;
  std::mt19937_64 random_;
  EventQueue events_;
  Pool<Burst> bursts_;
  Pool<Io> ios_;
  std::vector<LaneState> lanes_;
  std::vector<StationState> stations_;
  std::vector<StreamState> streams_;
  std::vector<DriveState> drives_;
  std::vector<EngineState> engines_;
  std::vector<HopCost> costs_;
  std::uint64_t room_ = 0;
  Picoseconds now_ = 0;
  bool has_first_end_ = false;
  Outcome result_;
};

}  // namespace

Outcome simulate(const Network& network, const Workload& workload) { return Simulation(network, workload).run(); }

}  // namespace penstock::model
