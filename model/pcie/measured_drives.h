// SPDX-License-Identifier: Apache-2.0

// Replaces vendors' drive rates by those that `penstock bench` measured: `penstock-model contention --calibrate`. Only
// results that bypassed the page cache count.
#pragma once

#include <span>

#include "model/pcie/machine.h"
#include "model/pcie/pcie_constants.h"
#include "model/transfer.h"

namespace penstock::model {

// Sets rates and access times of all drives in a PCIe slot. Assumes that bench's file was on one such drive. Throws
// InputError if no result is from a drive.
void set_measured_drives(Machine& machine, std::span<const GroupComparison> groups, const PcieConstants& constants);

}  // namespace penstock::model
