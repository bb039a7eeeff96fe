// SPDX-License-Identifier: Apache-2.0

// `penstock check --deepspeed FILE`, kept from the last release. Python's package now judges such a file, with
// DeepSpeed's own classes if they are installed; this option finds the package and runs its command.
#pragma once

#include <string>

namespace penstock::tools {

// Replaces this process by the Python command, whose exit code is then this one's. Throws a Failure if no Python with
// the package penstock is found.
[[noreturn]] void check_deepspeed(const std::string& file, bool json);

}  // namespace penstock::tools
