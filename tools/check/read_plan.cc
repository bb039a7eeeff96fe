// SPDX-License-Identifier: Apache-2.0

#include "tools/check/read_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "model/pcie/flow_level.h"
#include "model/pcie/pci_topology.h"
#include "model/pcie/workload.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kOfAKindMost = 256;  // A captured machine may claim thousands.

// Replaces the model's own number of a drive by its name: "nvme1 up" becomes "nvme0 0000:19:00.0, up".
std::string station_text(const model::Machine& machine, const std::vector<BusEnd>& ends, const std::string& station) {
  const std::size_t space = station.find(' ');
  const int node = machine.find(station.substr(0, space));
  if (space == std::string::npos || node == model::kNone || machine.node(node).address.empty()) return station;
  return facts::end_text(ends, machine.node(node).address) + "," + station.substr(space);
}

double total_of(const model::Machine& machine, std::vector<model::Stream> streams) {
  model::Workload workload;
  workload.streams = std::move(streams);
  return model::simulate_flows(model::compile(machine, workload), workload).shared_bytes_per_second;
}

// An end that has a node in the model; it has none if the kernel does not report its link.
struct Known {
  const BusEnd* end = nullptr;
  std::string node;
};

std::vector<Known> known_of(const model::Machine& machine, const std::vector<BusEnd>& ends, EndKind kind) {
  std::vector<Known> found;
  for (const BusEnd& end : ends) {
    const auto is_it = [&](const model::Node& node) { return node.address == end.device.address; };
    const auto node = std::find_if(machine.nodes.begin(), machine.nodes.end(), is_it);
    if (end.kind == kind && node != machine.nodes.end() && found.size() < kOfAKindMost)
      found.push_back({&end, node->name});
  }
  return found;
}

// Pairs GPUs with drives, the nearest pair first; when all drives are taken, each may be taken once more.
std::vector<std::pair<Known, Known>> nearest_pairs(std::vector<Known> gpus, const std::vector<Known>& drives) {
  std::vector<std::pair<Known, Known>> pairs;
  std::vector<unsigned> taken(drives.size());
  while (!gpus.empty()) {
    const unsigned least = *std::min_element(taken.begin(), taken.end());
    std::tuple<core::Distance, std::size_t, std::size_t> best{core::Distance::apart, gpus.size(), 0};
    for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
      for (std::size_t drive = 0; drive < drives.size(); ++drive) {
        if (taken[drive] > least) continue;
        best = std::min(best, {facts::distance_between(*drives[drive].end, *gpus[gpu].end), gpu, drive});
      }
    }
    const auto [distance, gpu, drive] = best;
    ++taken[drive];
    pairs.emplace_back(gpus[gpu], drives[drive]);
    gpus.erase(gpus.begin() + static_cast<std::ptrdiff_t>(gpu));
  }
  return pairs;
}

model::Stream stream_of(const std::string& gpu, std::vector<std::string> drives) {
  model::Stream stream;
  stream.name = gpu;
  stream.gpu = gpu;
  stream.stores = std::move(drives);
  return stream;
}

void fill(const model::Machine& machine, const std::vector<BusEnd>& ends, ReadPlan& plan) {
  const std::vector<Known> gpus = known_of(machine, ends, EndKind::gpu),
                           drives = known_of(machine, ends, EndKind::drive);
  const auto is_end = [](const BusEnd& end) { return end.kind != EndKind::nic; };
  const auto all = static_cast<std::size_t>(std::count_if(ends.begin(), ends.end(), is_end));
  plan.left_out = static_cast<unsigned>(all - gpus.size() - drives.size());
  if (gpus.empty() || drives.empty())
    throw model::InputError("the kernel reports no link of " + std::string(gpus.empty() ? "a GPU" : "a drive"));
  model::Workload workload;
  std::vector<model::Stream> striped;
  std::vector<std::string> every_drive;
  for (const Known& drive : drives) every_drive.push_back(drive.node);
  for (const auto& [gpu, drive] : nearest_pairs(gpus, drives)) {
    workload.streams.push_back(stream_of(gpu.node, {drive.node}));
    striped.push_back(stream_of(gpu.node, every_drive));
    const core::Distance distance = facts::distance_between(*drive.end, *gpu.end);
    plan.reads.push_back(
        {gpu.end->device.address, drive.end->device.address, core::distance_name(distance), gpu.end->device.numa_node});
  }
  const model::Network network = model::compile(machine, workload);
  const model::Outcome outcome = model::simulate_flows(network, workload);
  for (std::size_t i = 0; i < plan.reads.size(); ++i)
    plan.reads[i].bytes_per_second = outcome.streams[i].shared_bytes_per_second;
  plan.bytes_per_second = outcome.shared_bytes_per_second;
  if (outcome.busiest_station != model::kNoStation)
    plan.bound_by = station_text(machine, ends, network.stations[outcome.busiest_station].name);
  plan.striped_per_second = total_of(machine, std::move(striped));
  for (const Known& drive : drives) {
    const std::string& address = drive.end->device.address;
    const auto reads_it = [&](const PlannedRead& read) { return read.drive == address; };
    if (std::none_of(plan.reads.begin(), plan.reads.end(), reads_it)) plan.idle.push_back(address);
  }
}

bool has(const std::vector<BusEnd>& ends, EndKind kind) {
  return std::any_of(ends.begin(), ends.end(), [&](const BusEnd& end) { return end.kind == kind; });
}

}  // namespace

ReadPlan plan_reads(const std::vector<core::PciDevice>& devices, const std::vector<BusEnd>& ends) {
  ReadPlan plan;
  if (!has(ends, EndKind::gpu)) plan.not_made = "this machine shows no GPU";
  else if (!has(ends, EndKind::drive)) plan.not_made = "this machine shows no NVMe drive on its PCI bus";
  if (!plan.not_made.empty()) return plan;
  try {
    fill(model::machine_of(devices, "this machine"), ends, plan);
  } catch (const model::InputError& unknown) {  // Some link is unknown, as in some virtual machines.
    plan = {};
    plan.not_made = unknown.what();
  }
  return plan;
}

}  // namespace penstock::tools
