// SPDX-License-Identifier: Apache-2.0

// The folders that a DeepSpeed configuration names, as they are on this machine, and what Penstock would do for files
// in them.
#pragma once

#include "tools/check/deepspeed_config.h"

namespace penstock::tools {

// Looks at the machine once, where a folder is to be used.
void check_deepspeed_places(const DeepSpeedConfig& config, DeepSpeedFindings& findings);

}  // namespace penstock::tools
