// SPDX-License-Identifier: Apache-2.0

// An hwloc XML file (`lstopo FILE.xml`) as a Machine. Only its PCI tree counts: host bridges are sockets, bridges with
// bridges below are switches, PCI devices are told by their class and the operating system's names under them.
#pragma once

#include <string>

#include "model/pcie/machine.h"

namespace penstock::model {

// Throws InputError, with the line of what is wrong.
Machine read_hwloc_file(const std::string& path, const PcieConstants& constants = {});
Machine parse_hwloc(const std::string& text, const std::string& name, const PcieConstants& constants = {});

}  // namespace penstock::model
