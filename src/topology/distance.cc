// SPDX-License-Identifier: Apache-2.0

#include "topology/distance.h"

#include <algorithm>

#include "topology/block_device.h"
#include "topology/mounts.h"

namespace penstock::core {
namespace {

const PciDevice* find(const std::vector<PciDevice>& devices, const std::string& address) {
  const auto found =
      std::find_if(devices.begin(), devices.end(), [&](const PciDevice& each) { return each.address == address; });
  return found == devices.end() ? nullptr : &*found;
}

Distance farthest(const BlockDevice& stack, const std::vector<PciDevice>& devices, const PciDevice& gpu) {
  if (stack.slaves.empty()) {
    const PciDevice* const drive = find(devices, stack.pci_address);
    return drive == nullptr ? Distance::unknown : distance_between(*drive, gpu);
  }
  Distance all = Distance::same_switch;
  for (const BlockDevice& each : stack.slaves) all = std::max(all, farthest(each, devices, gpu));
  return all;
}

}  // namespace

const char* distance_name(Distance distance) {
  switch (distance) {
    case Distance::same_switch: return "switch";
    case Distance::same_host_bridge: return "host_bridge";
    case Distance::same_node: return "node";
    case Distance::apart: return "apart";
    case Distance::unknown: break;
  }
  return "unknown";
}

Distance distance_between(const PciDevice& drive, const PciDevice& gpu) {
  switch (pci_relation(drive, gpu)) {
    case PciRelation::same_switch: return Distance::same_switch;
    case PciRelation::same_host_bridge: return Distance::same_host_bridge;
    case PciRelation::different_host_bridges: break;
  }
  if (drive.numa_node < 0 || gpu.numa_node < 0) return Distance::unknown;
  return drive.numa_node == gpu.numa_node ? Distance::same_node : Distance::apart;
}

Distance distance_of(const Root& root, std::string_view path, const std::string& gpu_address) {
  const std::vector<PciDevice> devices = read_pci_devices(root);
  const PciDevice* const gpu = find(devices, gpu_address);
  const MountTable mounts = MountTable::read(root);
  const Mount* const mount = mounts.find(path);
  const auto number = mount == nullptr ? std::nullopt : mount_device(root, mounts, *mount);
  const auto stack = number ? read_block_device(root, mounts, *number) : std::nullopt;
  if (gpu == nullptr || !stack) return Distance::unknown;
  return farthest(*stack, devices, *gpu);
}

}  // namespace penstock::core
