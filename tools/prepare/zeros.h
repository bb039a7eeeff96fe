// SPDX-License-Identifier: Apache-2.0

// Parts of a file that read as zeros because nothing was ever written there, and zeros written to them, so that no
// extent is left to convert.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace penstock::tools {

// Up to `end`, a multiple of kZeroBlock. before_each: called before every piece of some mebibytes; it may throw.
// Returns the bytes of zeros written.
constexpr std::uint64_t kZeroBlock = 4096;
std::uint64_t write_unwritten(const std::string& path, int fd, std::uint64_t end,
                              const std::function<void()>& before_each);

}  // namespace penstock::tools
