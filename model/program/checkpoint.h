// SPDX-License-Identifier: Apache-2.0

// penstock model checkpoint, penstock model load: seconds for each kind of path, how often to save, what a run loses.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_model_checkpoint(CommandLine& parent);
void add_model_load(CommandLine& parent);

}  // namespace penstock::tools
