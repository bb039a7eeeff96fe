// SPDX-License-Identifier: Apache-2.0

// Reads an hwloc XML file (`lstopo FILE.xml`) as a Machine. Only its PCI tree matters: host bridges are sockets,
// bridges with bridges below are switches, and PCI devices are recognized by their class and the OS devices under them.
#pragma once

#include <string>

#include "model/pcie/machine.h"

namespace penstock::model {

// Throws InputError with the line of the fault.
Machine read_hwloc_file(const std::string& path, const PcieConstants& constants = {});
Machine parse_hwloc(const std::string& text, const std::string& name, const PcieConstants& constants = {});

}  // namespace penstock::model
