// SPDX-License-Identifier: Apache-2.0

// The size of the CPU's pages, which mappings and the page cache are made of. 4 KiB on x86; 16 or 64 KiB on other
// machines. Pages of GPUs and alignments that storage asks for are other things.
#pragma once

#include <unistd.h>

#include <cstddef>

namespace penstock::core {

// A power of two. The system is asked once.
inline std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace penstock::core
