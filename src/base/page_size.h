// SPDX-License-Identifier: Apache-2.0

// The size of the CPU's pages, in which mappings and the page cache are made: 4 KiB on x86, 16 or 64 KiB on some other
// machines. It has nothing to do with the pages of GPUs and the alignment that storage needs.
#pragma once

#include <unistd.h>

#include <cstddef>

namespace penstock::core {

// A power of two. The system is asked only once.
inline std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace penstock::core
