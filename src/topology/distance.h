// SPDX-License-Identifier: Apache-2.0

// The distance of a drive from a GPU: the parts of the bus between them. The nearest value comes first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "topology/pci_device.h"
#include "topology/root.h"

namespace penstock::core {

enum class Distance : std::uint8_t {
  same_switch,  // The same as PciRelation's.
  same_host_bridge,
  same_node,  // They share a CPU and its memory, with different host bridges of one socket.
  unknown,    // One of them is not a PCI device, or its place is unknown.
  apart,      // The link between two sockets is between them.
};
const char* distance_name(Distance distance);

Distance distance_between(const PciDevice& drive, const PciDevice& gpu);
// Measures from the drive that contains the path, or the farthest of several (md, LVM). `path` is absolute, without
// links.
Distance distance_of(const Root& root, std::string_view path, const std::string& gpu_address);

}  // namespace penstock::core
