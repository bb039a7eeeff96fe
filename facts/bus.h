// SPDX-License-Identifier: Apache-2.0

// GPUs, NVMe drives and NICs in the order of the PCIe tree: by NUMA node, host bridge and switch; and how far they are
// from each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "facts/machine.h"
#include "topology/distance.h"

namespace penstock::facts {

enum class EndKind : std::uint8_t { gpu, drive, nic };
const char* end_kind_name(EndKind kind);  // "GPU", "drive", "NIC"

struct BusEnd {
  core::PciDevice device;
  EndKind kind = EndKind::gpu;
  std::vector<std::string> names;  // The kernel's names: "nvme0"; "mlx5_0", "eth4". A GPU has none.

  // "nvme0 0000:19:00.0"
  std::string text() const;
  // The upstream ports of the switches above it, from the root down.
  std::vector<std::string> switches() const;
};

// The text of the end with that address; the address itself if there is no such end.
std::string end_text(const std::vector<BusEnd>& ends, const std::string& address);

// All PCI devices of a machine, with its bridges.
std::vector<core::PciDevice> pci_devices(const core::Root& root);
// The GPUs, drives and NICs among them, in the order of the tree.
std::vector<BusEnd> bus_ends(const core::Root& root, const std::vector<core::PciDevice>& devices);

core::Distance distance_between(const BusEnd& one, const BusEnd& gpu);
// Where a drive is, seen from a GPU: "below one PCIe switch with the GPU".
const char* place_beside(const core::PciDevice& drive, const core::PciDevice& gpu);

}  // namespace penstock::facts
