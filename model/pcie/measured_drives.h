// SPDX-License-Identifier: Apache-2.0

// A machine's drives as `penstock bench` measured one of them, in place of what vendors say: `penstock-model contention
// --calibrate`. What bypassed the page cache counts; the cache is no drive.
#pragma once

#include <span>

#include "model/pcie/machine.h"
#include "model/pcie/pcie_constants.h"
#include "model/transfer.h"

namespace penstock::model {

// Sets rates and access times of all drives in a PCIe slot. The file that bench used is taken to have lain on one drive
// such as these. Throws InputError where no result is of a drive.
void set_measured_drives(Machine& machine, std::span<const GroupComparison> groups, const PcieConstants& constants);

}  // namespace penstock::model
