// SPDX-License-Identifier: Apache-2.0

// GPUs, NVMe drives and NICs in the order of the PCIe tree: by NUMA node, host bridge and switch.
#pragma once

#include <string>
#include <vector>

#include "tools/common/context.h"
#include "tools/common/page.h"
#include "topology/pci_device.h"
#include "topology/root.h"

namespace penstock::tools {

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

// The GPUs, drives and NICs among the machine's PCI devices, in the order of the tree.
std::vector<BusEnd> bus_ends(const core::Root& root, const std::vector<core::PciDevice>& devices);

std::string bus_tree_text(const std::vector<BusEnd>& ends);
Json bus_ends_json(const std::vector<BusEnd>& ends);
// A table of the distance of every drive and NIC from every GPU, in the order of the ends; "" if there are none of
// either. Its first column has the heading, a second one the links if these are wanted.
std::string distances_text(const std::vector<BusEnd>& ends, const char* heading = "to", bool with_links = false);
Json distances_json(const std::vector<BusEnd>& ends);

// A table of the NICs that are nearest to each GPU and drive; "" if there are none of either.
std::string nearest_nics_text(const std::vector<BusEnd>& ends);
Json nearest_nics_json(const std::vector<BusEnd>& ends);

// The same of the drives and GPUs alone, by their addresses.
void print_placement(Page& page, const std::vector<core::PciDevice>& devices);
// [{drive, gpu, relation}]; relation is a core::distance_name().
Json placement_json(const std::vector<core::PciDevice>& devices);

}  // namespace penstock::tools
