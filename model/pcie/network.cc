// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "model/pcie/route_finder.h"

namespace penstock::model {
namespace {

constexpr std::array<const char*, 8> kStationNames = {"link", "crossbar",    "root complex", "memory",
                                                      "copy", "socket link", "media",        "wire"};
constexpr double kNano = 1e-9;

enum class TrafficClass : std::uint8_t { drive_to_nic, nic_to_gpu, gpu_to_nic, other };

TrafficClass class_between(NodeKind from, NodeKind to) {
  if (from == NodeKind::drive && to == NodeKind::nic) return TrafficClass::drive_to_nic;
  if (from == NodeKind::nic && to == NodeKind::gpu) return TrafficClass::nic_to_gpu;
  if (from == NodeKind::gpu && to == NodeKind::nic) return TrafficClass::gpu_to_nic;
  return TrafficClass::other;
}

class Compiler {
 public:
  Compiler(const Machine& machine, const Workload& workload, const PcieConstants& constants)
      : machine_(machine), workload_(workload), constants_(constants), finder_(machine, workload.iommu) {
    for (std::size_t i = 0; i < machine.nodes.size(); ++i) nodes_[machine.nodes[i].name] = static_cast<int>(i);
    network_.port_buffer_bytes = constants.port_buffer_bytes;
    network_.drives.push_back({"none"});
    network_.engines.push_back({"none"});
  }

  Network run() {
    for (stream_index_ = 0; stream_index_ < workload_.streams.size(); ++stream_index_) {
      network_.plans.push_back(plan_of(workload_.streams[stream_index_]));
    }
    return std::move(network_);
  }

 private:
  struct Ends {
    int store = kNone;
    int gpu = kNone;
    int from = kNone;
    int to = kNone;
  };

  const Stream& stream() const { return workload_.streams[stream_index_]; }

  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(fmt::format("{}stream '{}': {}", place(machine_.source, stream().line), stream().name, what));
  }

  int node_named(const std::string& name) const {
    const auto found = nodes_.find(name);
    if (found == nodes_.end()) refuse(fmt::format("there is no '{}' in this machine", name));
    return found->second;
  }

  StreamPlan plan_of(const Stream& stream) {
    StreamPlan plan;
    const bool is_direct = stream.path == PathKind::direct || stream.path == PathKind::pipeline;
    const double usual = (is_direct ? constants_.direct_request_us : constants_.host_request_us) * kMicro;
    plan.request_seconds = stream.request_seconds >= 0 ? stream.request_seconds : usual;
    set_fences(stream.fence, plan);
    for (const std::string& store : stream.stores) plan.routes.push_back(route_of(store));
    return plan;
  }

  void set_fences(FenceKind fence, StreamPlan& plan) const {
    if (fence == FenceKind::none) return;
    const bool is_single = fence == FenceKind::single;
    plan.fence_seconds = (is_single ? constants_.fence_single_ns : constants_.fence_coalesced_ns) * kNano;
    plan.fence_bytes = is_single ? constants_.fence_single_bytes : constants_.fence_coalesced_bytes;
  }

  Route route_of(const std::string& store) {
    Ends ends;
    ends.store = node_named(store);
    ends.gpu = node_named(stream().gpu);
    ends.from = stream().is_write ? ends.gpu : ends.store;
    ends.to = stream().is_write ? ends.store : ends.gpu;
    if (ends.from == ends.to) refuse("begins where it ends");
    const bool is_reading_pipeline = stream().path == PathKind::pipeline && !stream().is_write;
    if (workload_.ordering == Ordering::relaxed && !is_reading_pipeline) {
      refuse("relaxed ordering is simulated for pipelines that read, and for nothing else");
    }
    Route route;
    route.drive = drive_of(ends.store);
    if (stream().path == PathKind::pipeline) {
      add_stages(route, ends);
    } else {
      for (const std::vector<Visit>& visits : legs_between(ends)) add_leg(route, ends, visits);
    }
    if (route.legs.empty()) refuse("nothing on its way has a limit");
    return route;
  }

  // Through the host means through the memory of the GPU's socket.
  std::vector<std::vector<Visit>> legs_between(const Ends& ends) {
    if (stream().path == PathKind::direct) return {visits(ends.from, ends.to)};
    const int root = machine_.root_of(ends.gpu);
    if (machine_.node(root).kind != NodeKind::root) refuse("has no host whose memory it could go through");
    std::vector<std::vector<Visit>> legs;
    if (ends.from != root) legs.push_back(visits(ends.from, root));
    if (stream().path == PathKind::through_host) legs.push_back({{root, Role::copy}, {root, Role::memory, 2}});
    if (ends.to != root) legs.push_back(visits(root, ends.to));
    return legs;
  }

  // The four stages: drive, path into the memory of its nic, wires, path from the other nic to the GPU. Fences are
  // between the second and the third. A write goes in the opposite direction, and needs none.
  void add_stages(Route& route, const Ends& ends) {
    const bool is_write = stream().is_write;
    if (machine_.node(ends.store).kind != NodeKind::drive) refuse("a pipeline begins at a drive");
    if (is_write && stream().fence != FenceKind::none) refuse("only what is read from drives has fences in a pipeline");
    const auto [near, far] = nics_between(ends);
    std::vector<Visit> at_store = is_write ? visits(near, ends.store) : visits(ends.store, near);
    std::vector<Visit> at_gpu = is_write ? visits(ends.gpu, far) : visits(far, ends.gpu);
    const Visit media{ends.store, Role::media};
    const std::vector<Visit> wires = {{is_write ? far : near, Role::wire_out}, {is_write ? near : far, Role::wire_in}};
    const auto without_ends = [](std::vector<Visit>& way) {
      std::erase_if(way, [](const Visit& visit) {
        return visit.role == Role::media || visit.role == Role::wire_in || visit.role == Role::wire_out;
      });
    };
    without_ends(at_store);
    without_ends(at_gpu);
    using Stage = std::tuple<std::size_t, int, Ends, std::vector<Visit>>;
    std::vector<Stage> stages = {Stage{0, ends.store, {ends.store, ends.gpu, ends.store, near}, {media}},
                                 Stage{1, ends.store, {ends.store, ends.gpu, ends.store, near}, at_store},
                                 Stage{2, near, {ends.store, ends.gpu, near, far}, wires},
                                 Stage{3, far, {ends.store, ends.gpu, far, ends.gpu}, at_gpu}};
    if (is_write) std::reverse(stages.begin(), stages.end());
    bool is_fenced = false;
    for (auto& [stage, node, between, way] : stages) {
      if (is_write) std::swap(between.from, between.to);
      is_fenced = is_fenced || (stage == 2 && stream().fence != FenceKind::none);
      const std::size_t before = route.legs.size();
      add_leg(route, between, way);
      if (route.legs.size() == before) continue;
      route.legs.back().engine = engine_of(stage, node);
      route.legs.back().is_fenced = std::exchange(is_fenced, false);
      if (stage == 1) {
        route.drive_leg = before;
        route.legs.back().is_told_ahead = workload_.ordering == Ordering::relaxed && stream().fence == FenceKind::none;
      }
    }
    if (!route.legs.empty()) route.legs.back().is_told_ahead = false;  // No leg follows that could be notified.
  }

  // The nic next to the store, and the nearest other one to the GPU.
  std::pair<int, int> nics_between(const Ends& ends) const {
    const auto nearest = [&](int device, int but) {
      std::pair best(INT_MAX, kNone);
      for (const int nic : machine_.all(NodeKind::nic)) {
        const int distance = pcie_distance(machine_, nic, device);
        if (nic != but && distance >= 0) best = std::min(best, std::pair(distance, nic));
      }
      return best.second;
    };
    int near = stream().through.empty() ? nearest(ends.store, kNone) : node_named(stream().through);
    if (near != kNone && machine_.node(near).kind != NodeKind::nic) refuse("goes through what is no nic");
    const int far = nearest(ends.gpu, near);
    if (near == kNone || far == kNone) refuse("a pipeline needs a nic beside the drive and another beside the GPU");
    return {near, far};
  }

  std::uint32_t engine_of(std::size_t stage, int node) {
    constexpr std::array<const char*, 4> kStages = {"media", "DMA", "sending", "receiving"};
    const auto [place, is_new] = engine_indices_.try_emplace({stage, node}, network_.engines.size());
    if (is_new) {
      network_.engines.push_back(
          {fmt::format("{} {}", machine_.node(node).name, kStages.at(stage)), workload_.stage_depth.at(stage)});
    }
    return static_cast<std::uint32_t>(place->second);
  }

  std::vector<Visit> visits(int from, int to) {
    std::vector<Visit> way;
    const std::string problem = finder_.find(from, to, stream().through, way);
    if (!problem.empty()) refuse(problem);
    return way;
  }

  std::uint32_t drive_of(int store) {
    const Node& node = machine_.node(store);
    if (node.kind != NodeKind::drive) return 0;
    const auto [place, is_new] = drive_indices_.try_emplace(store, network_.drives.size());
    if (is_new) network_.drives.push_back({node.name, node.queue, node.access_seconds, node.jitter});
    return static_cast<std::uint32_t>(place->second);
  }

  void add_leg(Route& route, const Ends& ends, const std::vector<Visit>& way) {
    Leg leg;
    leg.hop_begin = static_cast<std::uint32_t>(network_.hops.size());
    const std::vector<double> payloads = payloads_along(way);
    std::uint32_t before = UINT32_MAX;
    for (std::size_t i = 0; i < way.size(); ++i) {
      route.latency_seconds += latency(way[i].role);
      const Station station = station_of(way[i]);
      Hop hop = hop_of(way, i, ends, payloads[i]);
      const bool is_limit = station.rate > 0 || station.change_seconds > 0 || station.command_seconds > 0;
      if (!is_limit && !hop.has_fences) continue;
      hop.station = add_station(way[i], station);
      hop.is_source = network_.hops.size() == leg.hop_begin;
      hop.lane = lane_of(hop, before, ends);
      network_.hops.push_back(hop);
      before = hop.station;
    }
    leg.hop_end = static_cast<std::uint32_t>(network_.hops.size());
    if (leg.hop_end != leg.hop_begin) route.legs.push_back(leg);
  }

  double latency(Role role) const {
    if (role == Role::crossbar_up || role == Role::crossbar_down) return constants_.switch_latency_ns * kNano;
    return role == Role::complex ? constants_.root_latency_ns * kNano : 0;
  }

  // A packet keeps its size between root complexes, so the smallest MaxPayload between them applies.
  std::vector<double> payloads_along(const std::vector<Visit>& way) const {
    std::vector<double> payloads(way.size(), 0);
    std::size_t begin = 0;
    double least = HUGE_VAL;
    for (std::size_t i = 0; i <= way.size(); ++i) {
      if (i == way.size() || way[i].role == Role::complex) {
        std::fill(payloads.begin() + static_cast<std::ptrdiff_t>(begin),
                  payloads.begin() + static_cast<std::ptrdiff_t>(i), least);
        begin = i;
        least = HUGE_VAL;
      } else if (is_link(way[i].role)) {
        const PcieLink& link = machine_.node(way[i].node).link;
        const unsigned usual = usual_max_payload(link.generation, constants_);
        least = std::min<double>(least, link.max_payload != 0 ? link.max_payload : usual);
      }
    }
    return payloads;
  }

  static bool is_link(Role role) { return role == Role::link_up || role == Role::link_down; }

  // Drives and NICs are DMA masters: they write outgoing bytes and fetch incoming ones. A GPU does so with host memory.
  Carriage carriage(const std::vector<Visit>& way) const {
    const NodeKind from = machine_.node(way.front().node).kind;
    const NodeKind to = machine_.node(way.back().node).kind;
    if (from == NodeKind::drive || from == NodeKind::nic || from == NodeKind::fabric) return Carriage::written;
    if (to == NodeKind::drive || to == NodeKind::nic || to == NodeKind::fabric) return Carriage::fetched;
    return from == NodeKind::root ? Carriage::fetched : Carriage::written;
  }

  Hop hop_of(const std::vector<Visit>& way, std::size_t i, const Ends& ends, double payload) const {
    const Visit& visit = way[i];
    const Node& node = machine_.node(visit.node);
    Hop hop;
    hop.passes = visit.passes;
    hop.has_fences = has_fences(visit, ends);
    if (is_link(visit.role)) {
      const Carriage carried = carriage(way);
      hop.seconds_per_byte = 1 / usable_rate(node.link, carried, constants_);
      hop.packet_bytes = payload;
      hop.header_bytes = header_bytes(node.link, carried, constants_);
    } else {
      const bool writes_media = visit.role == Role::media && visit.node == ends.to;
      const double rate = writes_media ? node.write_rate : station_of(visit).rate;
      hop.seconds_per_byte = rate > 0 ? 1 / rate : 0;
    }
    if (is_slowed_by_iommu(node, ends)) hop.seconds_per_byte /= 1 - constants_.iommu_strict_nic_loss;
    return hop;
  }

  // The store waits for its fences, and nothing else of it passes meanwhile.
  bool has_fences(const Visit& visit, const Ends& ends) const {
    const bool is_at_store = visit.node == ends.store && visit.passes == 1;
    const bool is_store = visit.role == Role::media || visit.role == Role::wire_in || visit.role == Role::wire_out ||
                          visit.role == Role::memory;
    const bool is_server = machine_.node(machine_.root_of(ends.store)).kind == NodeKind::fabric;
    const bool is_chained = stream().path == PathKind::pipeline;
    return stream().fence != FenceKind::none && !is_chained && is_at_store && is_store &&
           !(is_server && visit.role != Role::media);
  }

  bool is_slowed_by_iommu(const Node& node, const Ends& ends) const {
    if (workload_.iommu != IommuMode::strict || node.kind != NodeKind::nic) return false;
    return machine_.node(ends.from).kind == NodeKind::gpu || machine_.node(ends.to).kind == NodeKind::gpu;
  }

  Station station_of(const Visit& visit) const {
    const Node& node = machine_.node(visit.node);
    Station station;
    switch (visit.role) {
      case Role::link_up:
      case Role::link_down:
        station = {node.name + (visit.role == Role::link_up ? " up" : " down"), StationKind::link,
                   packet_rate(node.link, constants_)};
        station.is_bounded = true;
        break;
      case Role::crossbar_up:
      case Role::crossbar_down: station = crossbar(node, visit.role == Role::crossbar_up); break;
      case Role::complex: station = {node.name + " complex", StationKind::complex, node.complex_rate}; break;
      case Role::memory: station = {node.name + " memory", StationKind::memory, node.memory_rate}; break;
      case Role::copy: station = {node.name + " copy", StationKind::copy, node.copy_rate}; break;
      case Role::socket_link:
        station = {node.name + " to other sockets", StationKind::socket_link, node.socket_link_rate};
        break;
      case Role::media:
        station = {node.name + " media", StationKind::media, node.read_rate};
        station.command_seconds = node.command_seconds;
        break;
      case Role::wire_in: station = {node.name + " wire in", StationKind::wire, node.wire_rate}; break;
      case Role::wire_out: station = {node.name + " wire out", StationKind::wire, node.wire_rate}; break;
    }
    return station;
  }

  static Station crossbar(const Node& node, bool is_up) {
    Station station;
    station.name = node.name + (is_up ? " crossbar up" : " crossbar down");
    station.kind = StationKind::crossbar;
    station.rate = is_up ? node.crossbar_up_rate : node.crossbar_down_rate;
    station.change_seconds = node.change_seconds;
    station.interleave_bytes = node.interleave_bytes;
    station.is_bounded = true;
    return station;
  }

  std::uint32_t add_station(const Visit& visit, const Station& station) {
    const auto [place, is_new] = station_indices_.try_emplace({visit.node, visit.role}, network_.stations.size());
    if (is_new) network_.stations.push_back(station);
    return static_cast<std::uint32_t>(place->second);
  }

  // The lane of a hop: the arbiter decides between lanes. At its source each stream has its own.
  std::uint32_t lane_of(const Hop& hop, std::uint32_t before, const Ends& ends) {
    const TrafficClass traffic = class_between(machine_.node(ends.from).kind, machine_.node(ends.to).kind);
    std::uint64_t key = stream_index_;
    if (!hop.is_source && workload_.arbitration == Arbitration::round_robin) key = before;
    if (!hop.is_source && workload_.arbitration == Arbitration::traffic_class)
      key = static_cast<std::uint64_t>(traffic);
    if (!hop.is_source && workload_.arbitration == Arbitration::bdf) key = static_cast<std::uint64_t>(ends.from);
    const auto [place, is_new] = lane_indices_.try_emplace({hop.station, hop.is_source, key}, network_.lanes.size());
    if (is_new) network_.lanes.push_back({hop.station, weight(traffic, ends), hop.is_source});
    return static_cast<std::uint32_t>(place->second);
  }

  double weight(TrafficClass traffic, const Ends& ends) const {
    if (workload_.arbitration == Arbitration::bdf) return bdf_number(machine_, ends.from);
    if (workload_.arbitration == Arbitration::round_robin) return 1;
    if (workload_.arbitration == Arbitration::weighted_fair) return stream().weight;
    switch (traffic) {
      case TrafficClass::drive_to_nic: return constants_.class_weight_drive_to_nic;
      case TrafficClass::gpu_to_nic: return constants_.class_weight_gpu_to_nic;
      default: return constants_.class_weight_nic_to_gpu;
    }
  }

  const Machine& machine_;
  const Workload& workload_;
  const PcieConstants& constants_;
  RouteFinder finder_;
  Network network_;
  std::size_t stream_index_ = 0;
  std::unordered_map<std::string_view, int> nodes_;
  std::map<int, std::size_t> drive_indices_;
  std::map<std::pair<int, Role>, std::size_t> station_indices_;
  std::map<std::pair<std::size_t, int>, std::size_t> engine_indices_;
  std::map<std::tuple<std::uint32_t, bool, std::uint64_t>, std::size_t> lane_indices_;
};

}  // namespace

const char* station_kind_name(StationKind kind) { return kStationNames.at(static_cast<std::size_t>(kind)); }

double Hop::seconds(double bytes) const {
  return wire_bytes(bytes, packet_bytes, header_bytes) * seconds_per_byte * passes;
}

Network compile(const Machine& machine, const Workload& workload, const PcieConstants& constants) {
  check_machine(machine);
  check_workload(workload, machine.source);
  return Compiler(machine, workload, constants).run();
}

}  // namespace penstock::model
