// SPDX-License-Identifier: Apache-2.0

// Prints GPUs, NVMe drives and NICs in the order of the PCIe tree, and how far they are from each other.
#pragma once

#include <string>
#include <vector>

#include "facts/bus.h"
#include "tools/common/context.h"
#include "tools/common/page.h"

namespace penstock::tools {

using facts::BusEnd;
using facts::EndKind;

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
