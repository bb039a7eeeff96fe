// SPDX-License-Identifier: Apache-2.0

#include "base/huge_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "base/page_size.h"

namespace penstock::core {
namespace {

TEST(HugePagesTest, WhatIsMappedBeginsAtOneAndIsAllThere) {
  const std::size_t size = 3 * page_size();

  void* const memory = map_in_huge_pages(size);

  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % kHugePage, 0u);
  std::memset(memory, 'x', size);
  EXPECT_EQ(::munmap(memory, size), 0);
}

TEST(HugePagesTest, WhatIsTooMuchFails) { EXPECT_EQ(map_in_huge_pages(std::size_t{1} << 60), MAP_FAILED); }

}  // namespace
}  // namespace penstock::core
