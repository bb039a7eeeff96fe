// SPDX-License-Identifier: Apache-2.0

#include "base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

#include "base/align.h"

namespace penstock::core {

void* map_in_huge_pages(std::size_t size) {
  const std::size_t reserved = size + kHugePage;
  void* const memory = ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return MAP_FAILED;
  auto* const first = static_cast<std::byte*>(memory);
  auto* const start = reinterpret_cast<std::byte*>(align_up(reinterpret_cast<std::uintptr_t>(first), kHugePage));
  if (start > first) ::munmap(first, static_cast<std::size_t>(start - first));
  ::munmap(start + size, static_cast<std::size_t>(first + reserved - (start + size)));
  ::madvise(start, size, MADV_HUGEPAGE);
  return start;
}

}  // namespace penstock::core
