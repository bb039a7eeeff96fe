// SPDX-License-Identifier: Apache-2.0

// penstock model compare: benchmark results beside what a model calibrated on part of them predicts.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_model_compare(CommandLine& parent);

}  // namespace penstock::tools
