// SPDX-License-Identifier: Apache-2.0

// Memory that the kernel may back with huge pages. In a huge page a mebibyte is one piece or one translation for a
// device; in small pages it is 256.
#pragma once

#include <cstddef>

namespace penstock::core {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Maps private, zeroed memory of `size` bytes, which are whole pages, at a multiple of kHugePage. MAP_FAILED, with
// errno, if there is none. Give it back with munmap().
void* map_in_huge_pages(std::size_t size);

}  // namespace penstock::core
