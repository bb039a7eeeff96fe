// SPDX-License-Identifier: Apache-2.0

// How far every NVMe drive is from every GPU, as the bus goes. Pure.
#pragma once

#include "facts/machine.h"
#include "tools/common/context.h"
#include "tools/common/page.h"

namespace penstock::tools {

// A table, drives by GPUs; nothing where either is missing.
void print_placement(Page& page, const facts::Machine& machine);
// [{drive, gpu, relation}]; relation: a core::distance_name().
Json placement_json(const facts::Machine& machine);

}  // namespace penstock::tools
