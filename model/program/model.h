// SPDX-License-Identifier: Apache-2.0

// penstock model: what a machine will reach, by the models of model/. One sub-command for each.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_model(CommandLine& command);

}  // namespace penstock::tools
