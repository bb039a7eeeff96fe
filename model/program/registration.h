// SPDX-License-Identifier: Apache-2.0

// penstock model registration: what registering memory costs, and from which I/O on it pays to do it once.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_model_registration(CommandLine& parent);

}  // namespace penstock::tools
