// SPDX-License-Identifier: Apache-2.0

// Memory that the kernel may back with huge pages: devices take a mebibyte of these as one piece or with one
// translation, where it is 256 small pages.
#pragma once

#include <cstddef>

namespace penstock::core {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Private and zeroed, of `size` bytes, whole pages, from a multiple of kHugePage on; MAP_FAILED, with errno, where
// there is none. To be given back by munmap().
void* map_in_huge_pages(std::size_t size);

}  // namespace penstock::core
