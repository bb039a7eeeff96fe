// SPDX-License-Identifier: Apache-2.0

#include "facts/bus.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "topology/rdma_device.h"

namespace penstock::facts {
namespace {

void add_names(const core::Root& root, const std::vector<core::RdmaDevice>& rdma, BusEnd& end) {
  const std::string folder = "/sys/bus/pci/devices/" + end.device.address;
  for (const core::RdmaDevice& one : rdma) {
    if (one.pci_address == end.device.address) end.names.push_back(one.name);
  }
  if (end.kind == EndKind::gpu) return;
  const std::vector<std::string> more = root.list(folder + (end.kind == EndKind::drive ? "/nvme" : "/net"));
  end.names.insert(end.names.end(), more.begin(), more.end());
}

auto place_of(const BusEnd& end) {
  return std::tuple(end.device.numa_node, end.device.host_bridge, end.switches(), end.device.address);
}

}  // namespace

const char* end_kind_name(EndKind kind) {
  constexpr const char* kNames[] = {"GPU", "drive", "NIC"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string BusEnd::text() const {
  return names.empty() ? device.address : fmt::format("{} {}", fmt::join(names, " "), device.address);
}

// Bridges come as root port, upstream port, downstream port, upstream port, ...
std::vector<std::string> BusEnd::switches() const {
  std::vector<std::string> found;
  for (std::size_t i = 1; i + 1 < device.bridges.size(); i += 2) found.push_back(device.bridges[i]);
  return found;
}

std::string end_text(const std::vector<BusEnd>& ends, const std::string& address) {
  const auto is_it = [&](const BusEnd& end) { return end.device.address == address; };
  const auto found = std::find_if(ends.begin(), ends.end(), is_it);
  return found == ends.end() ? address : found->text();
}

std::vector<BusEnd> bus_ends(const core::Root& root, const std::vector<core::PciDevice>& devices) {
  const std::vector<core::RdmaDevice> rdma = core::read_rdma_devices(root);
  std::vector<BusEnd> ends;
  for (const core::PciDevice& device : devices) {
    if (!device.is_gpu() && !device.is_nvme() && !device.is_nic()) continue;
    const EndKind kind = device.is_gpu() ? EndKind::gpu : device.is_nvme() ? EndKind::drive : EndKind::nic;
    ends.push_back({device, kind, {}});
    add_names(root, rdma, ends.back());
  }
  std::sort(ends.begin(), ends.end(), [](const BusEnd& a, const BusEnd& b) { return place_of(a) < place_of(b); });
  return ends;
}

std::vector<core::PciDevice> pci_devices(const core::Root& root) { return core::read_pci_devices(root); }

core::Distance distance_between(const BusEnd& one, const BusEnd& gpu) {
  return core::distance_between(one.device, gpu.device);
}

const char* place_beside(const core::PciDevice& drive, const core::PciDevice& gpu) {
  switch (core::pci_relation(drive, gpu)) {
    case core::PciRelation::same_switch: return "below one PCIe switch with the GPU";
    case core::PciRelation::same_host_bridge: return "on the GPU's host bridge";
    case core::PciRelation::different_host_bridges: break;
  }
  const bool apart = drive.numa_node >= 0 && gpu.numa_node >= 0 && drive.numa_node != gpu.numa_node;
  return apart ? "on another NUMA node than the GPU" : "on another host bridge than the GPU";
}

}  // namespace penstock::facts
