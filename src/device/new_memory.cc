// SPDX-License-Identifier: Apache-2.0

#include "device/new_memory.h"

#include "base/huge_pages.h"

namespace penstock::core {

void* map_for_devices(std::size_t size) {
  void* const memory = size < kHugePage
                           ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                           : map_in_huge_pages(size);
  if (memory == MAP_FAILED) return nullptr;
  ::madvise(memory, size, MADV_DONTFORK);
  return memory;
}

}  // namespace penstock::core
