// SPDX-License-Identifier: Apache-2.0

// The distance of every NVMe drive from every GPU, over the bus. Pure.
#pragma once

#include "facts/machine.h"
#include "tools/common/context.h"
#include "tools/common/page.h"

namespace penstock::tools {

// Prints a table, drives by GPUs; nothing if there are none of either.
void print_placement(Page& page, const facts::Machine& machine);
// [{drive, gpu, relation}]; relation is a core::distance_name().
Json placement_json(const facts::Machine& machine);

}  // namespace penstock::tools
