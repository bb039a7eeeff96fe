// SPDX-License-Identifier: Apache-2.0

// Finds parts of a file that read as zeros because nothing was ever written there, and writes zeros to them, so that no
// extent is left to convert.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace penstock::tools {

// Works up to `end`, a multiple of kZeroBlock. `before_each` is called before each piece of some mebibytes, and may
// throw. Returns the bytes of zeros written.
constexpr std::uint64_t kZeroBlock = 4096;
std::uint64_t write_unwritten(const std::string& path, int fd, std::uint64_t end,
                              const std::function<void()>& before_each);

}  // namespace penstock::tools
