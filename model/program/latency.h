// SPDX-License-Identifier: Apache-2.0

// `penstock model latency`: one I/O, hop by hop.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_model_latency(CommandLine& parent);

}  // namespace penstock::tools
