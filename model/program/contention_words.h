// SPDX-License-Identifier: Apache-2.0

// Parses structured option values of `penstock-model contention`. All throw Failure with exit code 2.
#pragma once

#include <array>
#include <string>

#include "model/pcie/workload.h"

namespace penstock::tools {

// A pair "nvme0+nvme1=gpu3": the stores, then the GPU.
model::Stream stream_of_pair(const std::string& pair);
// One number for all stages, or four.
std::array<unsigned, 4> stage_depths(const std::string& text);

}  // namespace penstock::tools
