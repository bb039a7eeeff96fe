// SPDX-License-Identifier: Apache-2.0

// `penstock check --deepspeed FILE`, as the last release had it. Python's package judges such a file now, by
// DeepSpeed's own classes where they are installed; this option finds that package and runs its command.
#pragma once

#include <string>

namespace penstock::tools {

// The Python command takes the place of this process, and its exit code is that of this one. Throws a Failure where no
// Python with the package penstock is found.
[[noreturn]] void check_deepspeed(const std::string& file, bool json);

}  // namespace penstock::tools
