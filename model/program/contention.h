// SPDX-License-Identifier: Apache-2.0

// `penstock model contention`: how bytes contend in a PCIe tree. The face of model/pcie.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_model_contention(CommandLine& parent);

}  // namespace penstock::tools
