// SPDX-License-Identifier: Apache-2.0

// How much memory the machine, or the control group that confines this process, has and could still give.
#pragma once

#include <cstdint>

namespace penstock::core {

struct MemoryRoom {
  std::uint64_t total = 0;  // Bytes; 0 where nothing can be said.
  std::uint64_t available = 0;
};

// `root` is put before /proc and /sys.
MemoryRoom memory_room(const char* root = "");

}  // namespace penstock::core
