// SPDX-License-Identifier: Apache-2.0

// `penstock model cost`: what a run and its checkpoints cost on machines that are let by the hour.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_model_cost(CommandLine& parent);

}  // namespace penstock::tools
