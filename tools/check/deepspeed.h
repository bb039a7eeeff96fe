// SPDX-License-Identifier: Apache-2.0

// `penstock check --deepspeed FILE`: what DeepSpeed makes of a configuration as far as files go, and what Penstock
// would do for it here.
#pragma once

#include <string>

namespace penstock::tools {

// Prints it. The exit code: 1 where there is an error, or the file cannot be read.
int check_deepspeed(const std::string& file, bool json);

}  // namespace penstock::tools
