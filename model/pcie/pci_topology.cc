// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/pci_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/pcie/machine_builder.h"

namespace penstock::model {
namespace {

constexpr double kGigabit = 1e9 / 8;

bool is_wanted(const core::PciDevice& device) { return device.is_gpu() || device.is_nvme() || device.is_nic(); }

bool is_known(const core::PciLink& link) { return is_width(link.width) && link.generation() != 0; }

class HostReader {
 public:
  HostReader(std::span<const core::PciDevice> devices, const std::string& source, const PcieConstants& constants)
      : builder_("this-host", source, constants), constants_(constants), source_(source) {
    for (const core::PciDevice& device : devices) by_address_[device.address] = &device;
    for (const core::PciDevice& device : devices) {
      if (is_wanted(device) && is_known(best_link(device))) add(device);
    }
  }

  Machine take() {
    if (builder_.machine().nodes.empty()) {
      throw InputError(source_ + ": no GPU, NVMe drive or NIC with a known PCIe link is to be seen");
    }
    return builder_.take();
  }

 private:
  // Idle links run at a low speed; transfers use their maximum.
  static core::PciLink best_link(const core::PciDevice& device) {
    return {device.max_link.gigatransfers_per_second != 0 ? device.max_link.gigatransfers_per_second
                                                          : device.current_link.gigatransfers_per_second,
            device.current_link.width != 0 ? device.current_link.width : device.max_link.width};
  }

  void add(const core::PciDevice& device) {
    const core::PciLink link = best_link(device);
    const unsigned generation = link.generation();
    const int parent = parent_of(device);
    const double wire_rate = link.width * link.gigatransfers_per_second * kGigabit * constants_.nic_wire_share;
    int node = kNone;
    if (device.is_gpu()) node = builder_.gpu("gpu" + std::to_string(gpus_++), parent, generation, link.width);
    else if (device.is_nvme())
      node = builder_.drive("nvme" + std::to_string(drives_++), parent, generation, link.width);
    else node = builder_.nic("nic" + std::to_string(nics_++), parent, generation, link.width, wire_rate);
    builder_.node(node).address = device.address;
  }

  // Bridges come in the order root port, upstream port, downstream port, upstream port, ...: each upstream port is a
  // switch.
  int parent_of(const core::PciDevice& device) {
    int parent = root_of(device);
    for (std::size_t i = 1; i + 1 < device.bridges.size(); i += 2) parent = switch_at(device.bridges[i], parent);
    return parent;
  }

  int root_of(const core::PciDevice& device) {
    const int numa_node = std::max(device.numa_node, 0);
    const auto [place, is_new] = roots_.try_emplace(numa_node, 0);
    if (is_new) place->second = builder_.root(fmt::format("socket{}", numa_node));
    return place->second;
  }

  int switch_at(const std::string& address, int parent) {
    const auto [place, is_new] = switches_.try_emplace(address, parent);
    const auto bridge = by_address_.find(address);
    if (!is_new || bridge == by_address_.end()) return place->second;
    const core::PciLink link = best_link(*bridge->second);
    const bool is_told = is_known(link);
    place->second =
        builder_.pci_switch("switch-" + address, parent, is_told ? link.generation() : 4, is_told ? link.width : 16);
    return place->second;
  }

  MachineBuilder builder_;
  const PcieConstants& constants_;
  std::string source_;
  std::map<std::string, const core::PciDevice*> by_address_;
  std::map<int, int> roots_;
  std::map<std::string, int> switches_;
  int gpus_ = 0;
  int drives_ = 0;
  int nics_ = 0;
};

}  // namespace

Machine machine_of(std::span<const core::PciDevice> devices, const std::string& source,
                   const PcieConstants& constants) {
  return HostReader(devices, source, constants).take();
}

}  // namespace penstock::model
