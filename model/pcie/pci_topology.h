// SPDX-License-Identifier: Apache-2.0

// This host, or a captured one, as a Machine, from the PCI devices that src/topology reads. Values that /sys lacks
// (host memory's rate, a drive's media) come from the constants.
#pragma once

#include <span>
#include <string>

#include "model/pcie/machine.h"
#include "topology/pci_device.h"

namespace penstock::model {

// `source` is for messages. Throws InputError if there is no GPU, drive or NIC with a known link.
Machine machine_of(std::span<const core::PciDevice> devices, const std::string& source,
                   const PcieConstants& constants = {});

}  // namespace penstock::model
