// SPDX-License-Identifier: Apache-2.0

// `penstock topology`: where GPUs, drives and NICs hang on the PCIe tree, how far they are from each other, and which
// GPU had best read from which drive. Only looks.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_topology(CommandLine& command);

}  // namespace penstock::tools
