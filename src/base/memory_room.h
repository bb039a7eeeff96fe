// SPDX-License-Identifier: Apache-2.0

// The memory of the machine, or of the control group that confines this process: all of it, and the part still
// available.
#pragma once

#include <cstdint>

namespace penstock::core {

struct MemoryRoom {
  std::uint64_t total = 0;  // Bytes; 0 if unknown.
  std::uint64_t available = 0;
};

// `root` is put before /proc and /sys.
MemoryRoom memory_room(const char* root = "");

}  // namespace penstock::core
