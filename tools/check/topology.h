// SPDX-License-Identifier: Apache-2.0

// `penstock topology`: where GPUs, drives and NICs hang on the PCIe tree, how far they are from each other, and which
// GPU had best read from which drive. Only looks.
#pragma once

#include "tools/common/command_line.h"
#include "topology/root.h"

namespace penstock::tools {

// GPUs, drives and NICs as they hang, and who had best read from which drive. Returns the exit code: 77 where there are
// none of these.
int draw_topology(const core::Root& root, bool json);
void add_topology(CommandLine& command);  // The name of the last release.

}  // namespace penstock::tools
