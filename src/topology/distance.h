// SPDX-License-Identifier: Apache-2.0

// How far a drive is from a GPU: what data passes between them, the nearest first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "topology/pci_device.h"
#include "topology/root.h"

namespace penstock::core {

enum class Distance : std::uint8_t {
  same_switch,  // As of PciRelation.
  same_host_bridge,
  same_node,  // Of the CPU and its memory: another host bridge of the same socket.
  unknown,    // One of them is no PCI device, or nothing is known of it.
  apart,      // The link between two sockets.
};
const char* distance_name(Distance distance);

Distance distance_between(const PciDevice& drive, const PciDevice& gpu);
// From the drive that a path lies on; of several (md, LVM) from the farthest. `path` is absolute and without links.
Distance distance_of(const Root& root, std::string_view path, const std::string& gpu_address);

}  // namespace penstock::core
