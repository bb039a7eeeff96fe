// SPDX-License-Identifier: Apache-2.0

#include "facts/near_adapters.h"

namespace penstock::facts {

NearAdapters nearest_to(const core::PciDevice& of, const std::vector<Adapter>& adapters) {
  NearAdapters nearest{&of, {}, core::Distance::unknown};
  for (const Adapter& one : adapters) {
    const core::Distance distance = core::distance_between(*one.device, of);
    if (!nearest.names.empty() && nearest.distance < distance) continue;
    if (nearest.names.empty() || distance < nearest.distance) nearest = {&of, {}, distance};
    nearest.names.push_back(one.name);
  }
  return nearest;
}

std::vector<NearAdapters> nearest_adapters(const Machine& machine) {
  std::vector<Adapter> adapters;
  for (const core::RdmaDevice& one : machine.rdma) {
    const core::PciDevice* const device = machine.device(one.pci_address);
    if (device != nullptr) adapters.push_back({device, one.name});
  }
  std::vector<NearAdapters> all;
  for (const core::PciDevice& device : machine.pci) {
    if (!adapters.empty() && (device.is_gpu() || device.is_nvme())) all.push_back(nearest_to(device, adapters));
  }
  return all;
}

}  // namespace penstock::facts
