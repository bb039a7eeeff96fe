// SPDX-License-Identifier: Apache-2.0

// `penstock check --topology`: the places of GPUs, drives and NICs in the PCIe tree, their distances from each other,
// and which GPU had best read from which drive. It only looks.
#pragma once

#include "tools/common/command_line.h"
#include "topology/root.h"

namespace penstock::tools {

// Prints the tree and the plan of reads. Returns the exit code: 77 if there are no GPUs, drives and NICs.
int draw_topology(const core::Root& root, bool json);
void add_topology(CommandLine& command);  // Adds `topology`, the former name of `check --topology`.

}  // namespace penstock::tools
