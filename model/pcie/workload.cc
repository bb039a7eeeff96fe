// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

namespace penstock::model {
namespace {

constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 50;

[[noreturn]] void refuse(const std::string& source, const Stream& stream, const std::string& what) {
  throw InputError(fmt::format("{}stream '{}': {}", place(source, stream.line), stream.name, what));
}

void check_stream(const Stream& stream, const std::string& source) {
  if (stream.stores.empty()) refuse(source, stream, "has no store");
  if (stream.io_bytes == 0 || stream.io_bytes > kBytesMax) refuse(source, stream, "an I/O has no bytes, or too many");
  if (stream.total_bytes == 0 || stream.total_bytes > kBytesMax) refuse(source, stream, "has no bytes, or too many");
  if (stream.depth == 0 || stream.depth > kDepthMax) {
    refuse(source, stream, fmt::format("depth is {}; it must be from 1 to {}", stream.depth, kDepthMax));
  }
  // Written so that a NaN fails.
  if (!(stream.weight >= 1e-6 && stream.weight <= 1e6)) {
    refuse(source, stream, "weight must be from 1e-6 to 1e6");
  };
  if (!(stream.arrivals_per_second >= 0 && stream.arrivals_per_second <= 1e12)) {
    refuse(source, stream, "arrivals must be from 0 to 1e12 a second");
  }
  if (!(stream.start_seconds >= 0 && stream.start_seconds <= 1e5)) refuse(source, stream, "starts at no time");
  if (!(stream.request_seconds <= 1)) refuse(source, stream, "the software time of an I/O is above a second");
}

Stream stream_between(const Machine& machine, const std::vector<int>& stores, int gpu) {
  Stream stream;
  for (const int store : stores) stream.stores.push_back(machine.node(store).name);
  stream.gpu = machine.node(gpu).name;
  stream.name = stream.gpu;
  return stream;
}

// The nearest candidate that serves fewer than `share` GPUs; among equals the least used.
int nearest(const Machine& machine, int gpu, const std::vector<int>& candidates, std::size_t share,
            std::vector<std::size_t>& taken) {
  std::size_t best = candidates.size();
  std::pair<int, std::size_t> best_key;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (taken[i] >= share) continue;
    const int distance = pcie_distance(machine, gpu, candidates[i]);
    const std::pair key(distance < 0 ? INT_MAX : distance, taken[i]);
    if (best == candidates.size() || key < best_key) best = i, best_key = key;
  }
  ++taken[best];
  return candidates[best];
}

std::vector<Stream> from_nearest(const Machine& machine, const std::vector<int>& stores) {
  std::vector<Stream> streams;
  const std::vector<int> gpus = machine.all(NodeKind::gpu);
  const std::size_t share = (gpus.size() + stores.size() - 1) / stores.size();
  std::vector<std::size_t> taken(stores.size(), 0);
  for (const int gpu : gpus) {
    streams.push_back(stream_between(machine, {nearest(machine, gpu, stores, share, taken)}, gpu));
  }
  return streams;
}

std::vector<Stream> from_all(const Machine& machine, const std::vector<int>& stores) {
  std::vector<Stream> streams;
  for (const int gpu : machine.all(NodeKind::gpu)) streams.push_back(stream_between(machine, stores, gpu));
  return streams;
}

std::vector<Stream> from_host(const Machine& machine) {
  std::vector<Stream> streams;
  for (const int gpu : machine.all(NodeKind::gpu)) {
    streams.push_back(stream_between(machine, {machine.root_of(gpu)}, gpu));
  }
  return streams;
}

std::vector<Stream> into_first(const Machine& machine, const std::vector<int>& stores) {
  std::vector<Stream> streams;
  const int gpu = machine.all(NodeKind::gpu).front();
  for (const int store : stores) {
    streams.push_back(stream_between(machine, {store}, gpu));
    streams.back().name = machine.node(store).name;
  }
  return streams;
}

std::vector<Stream> from_both(const Machine& machine, const std::vector<int>& drives, const std::vector<int>& nics) {
  std::vector<Stream> streams = from_nearest(machine, drives);
  for (Stream& stream : from_nearest(machine, nics)) {
    stream.name += "-nic";
    streams.push_back(std::move(stream));
  }
  return streams;
}

// The nic of each device: the first of the nearest.
int nic_of(const Machine& machine, int device, const std::vector<int>& nics) {
  const auto distance = [&](int nic) {
    const int steps = pcie_distance(machine, device, nic);
    return steps < 0 ? INT_MAX : steps;
  };
  return *std::min_element(nics.begin(), nics.end(), [&](int a, int b) { return distance(a) < distance(b); });
}

std::vector<Stream> by_way_of_both(const Machine& machine, const std::vector<int>& drives,
                                   const std::vector<int>& nics) {
  std::vector<Stream> streams;
  std::vector<std::size_t> taken(drives.size(), 0);
  for (const int gpu : machine.all(NodeKind::gpu)) {
    const int own = nic_of(machine, gpu, nics);
    std::size_t best = drives.size();
    for (std::size_t i = 0; i < drives.size(); ++i) {
      if (nic_of(machine, drives[i], nics) == own) continue;
      if (best == drives.size() || taken[i] < taken[best]) best = i;
    }
    if (best == drives.size()) continue;
    ++taken[best];
    streams.push_back(stream_between(machine, {drives[best]}, gpu));
    streams.back().path = PathKind::pipeline;
    streams.back().through = machine.node(nic_of(machine, drives[best], nics)).name;
  }
  if (streams.empty()) throw InputError(machine.source + ": a pipeline needs drives beside another NIC than the GPU's");
  return streams;
}

const std::vector<int>& some(const Machine& machine, const std::vector<int>& nodes, const char* what) {
  if (nodes.empty())
    throw InputError(
        fmt::format("{}: the machine has no {}; --pattern or --pair can do without", machine.source, what));
  return nodes;
}

}  // namespace

void check_workload(const Workload& workload, const std::string& source) {
  if (workload.streams.empty()) throw InputError(source + ": there is no stream");
  if (workload.streams.size() > kStreamsMax) throw InputError(source + ": there are too many streams");
  if (workload.burst_bytes < 128 || workload.burst_bytes > (1 << 24)) {
    throw InputError(source + ": a burst must be from 128 B to 16 MiB");
  }
  for (const unsigned depth : workload.stage_depth) {
    if (depth > kDepthMax) throw InputError(fmt::format("{}: a stage's depth is above {}", source, kDepthMax));
  }
  std::uint64_t in_flight = 0;
  for (const Stream& stream : workload.streams) {
    check_stream(stream, source);
    const std::uint64_t ios = (stream.total_bytes - 1) / stream.io_bytes + 1;
    in_flight += stream.arrivals_per_second > 0 ? ios : std::min<std::uint64_t>(stream.depth, ios);
    if (in_flight > kInFlightMax) refuse(source, stream, "is one too many: more I/Os would be in flight than fit");
  }
}

int pcie_distance(const Machine& machine, int one, int other) {
  const std::vector<int> up = machine.ancestors(one);
  const std::vector<int> down = machine.ancestors(other);
  const auto [steps_up, steps_down] = meeting(up, down);
  if (steps_up < up.size()) return static_cast<int>(steps_up + steps_down);
  const Node& root = machine.node(up.back());
  const Node& other_root = machine.node(down.back());
  const bool same_host =
      root.kind == NodeKind::root && other_root.kind == NodeKind::root && root.host == other_root.host;
  return same_host ? static_cast<int>(up.size() + down.size()) + 1 : -1;
}

std::vector<Stream> streams_of(const Machine& machine, Pattern pattern, unsigned most) {
  some(machine, machine.all(NodeKind::gpu), "GPU");
  const std::vector<int> drives = machine.all(NodeKind::drive);
  const std::vector<int> nics = machine.all(NodeKind::nic);
  std::vector<Stream> streams;
  switch (pattern) {
    case Pattern::own_drive: streams = from_nearest(machine, some(machine, drives, "drive")); break;
    case Pattern::striped: streams = from_all(machine, some(machine, drives, "drive")); break;
    case Pattern::all_to_one: streams = into_first(machine, some(machine, drives, "drive")); break;
    case Pattern::nic: streams = from_nearest(machine, some(machine, nics, "NIC")); break;
    case Pattern::host: streams = from_host(machine); break;
    case Pattern::mixed:
      streams = from_both(machine, some(machine, drives, "drive"), some(machine, nics, "NIC"));
      break;
    case Pattern::pipeline:
      streams = by_way_of_both(machine, some(machine, drives, "drive"), some(machine, nics, "NIC"));
      break;
  }
  if (most != 0 && streams.size() > most) streams.resize(most);
  return streams;
}

}  // namespace penstock::model
