// SPDX-License-Identifier: Apache-2.0

// Usable and unusable memory, checked in each of the two ways.
#include "base/reachable_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/page_size.h"
#include "base/unique_fd.h"

namespace penstock::core {
namespace {

enum class Way { any, pages, mappings };

class ReachableMemoryTest : public testing::TestWithParam<Way> {
 protected:
  ReachableMemoryTest() { base_ = map(MAP_PRIVATE | MAP_ANONYMOUS, -1); }
  ~ReachableMemoryTest() override { ::munmap(base_, kPages * page_); }

  char* map(int flags, int fd) {
    return static_cast<char*>(::mmap(nullptr, kPages * page_, PROT_READ | PROT_WRITE, flags, fd, 0));
  }
  void protect(unsigned page, int protection) { ASSERT_EQ(::mprotect(base_ + page * page_, page_, protection), 0); }
  bool can(Access access, const char* memory, std::size_t size) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    if (GetParam() == Way::any) return is_reachable(memory, size, access);
    if (GetParam() == Way::pages) return are_pages_reachable(begin / page_ * page_, begin + size, access);
    const Mapped answer = is_mapped_for(begin, begin + size, access);
    // Before Linux 6.11 the kernel has no such query.
    return answer == Mapped::never ? is_reachable(memory, size, access) : answer == Mapped::yes;
  }
  bool can_read(const char* memory, std::size_t size) const { return can(Access::read, memory, size); }
  bool can_write(const char* memory, std::size_t size) const { return can(Access::write, memory, size); }

  static constexpr unsigned kPages = 128;  // Too many to be touched one by one.
  const std::size_t page_ = page_size();
  char* base_ = nullptr;
};
std::string name_of(const testing::TestParamInfo<Way>& each) {
  const char* const names[] = {"Any", "Pages", "Mappings"};
  return names[static_cast<int>(each.param)];
}
INSTANTIATE_TEST_SUITE_P(, ReachableMemoryTest, testing::Values(Way::any, Way::pages, Way::mappings), name_of);

TEST_P(ReachableMemoryTest, MemoryThatNobodyHasTouchedYetIsReachable) {
  EXPECT_TRUE(can_read(base_ + 5, kPages * page_ - 5));
  EXPECT_TRUE(can_write(base_, kPages * page_));
}

TEST_P(ReachableMemoryTest, WhatIsNotMappedIsNot) {
  EXPECT_FALSE(can_read(reinterpret_cast<const char*>(0x10), 10));
  ASSERT_EQ(::munmap(base_ + 7 * page_, page_), 0);

  EXPECT_TRUE(can_read(base_, 7 * page_));
  EXPECT_FALSE(can_read(base_, 7 * page_ + 1));
  EXPECT_FALSE(can_read(base_, kPages * page_));
  EXPECT_FALSE(can_write(base_ + 7 * page_ - 1, 2));
}

TEST_P(ReachableMemoryTest, AGuardPageIsNotWhetherItWasTouchedOrNot) {
  for (const char first : {'\0', 'x'}) {
    base_[3 * page_] = first;
    protect(3, PROT_NONE);
    EXPECT_TRUE(can_read(base_, 3 * page_));
    EXPECT_FALSE(can_read(base_, kPages * page_));
    EXPECT_FALSE(can_write(base_ + 3 * page_, 1));
    protect(3, PROT_READ | PROT_WRITE);
  }
}

TEST_P(ReachableMemoryTest, ReadOnlyMemoryCanBeReadAlone) {
  protect(2, PROT_READ);

  EXPECT_TRUE(can_read(base_, kPages * page_));
  EXPECT_FALSE(can_write(base_, kPages * page_));
  EXPECT_TRUE(can_write(base_, 2 * page_));
}

TEST_P(ReachableMemoryTest, AMappedFileEndsWhereTheFileDoes) {
  const UniqueFd file(::memfd_create("reachable_memory", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(100 * page_ + 1)), 0);
  char* const mapped = map(MAP_SHARED, file.get());

  EXPECT_TRUE(can_read(mapped, 101 * page_));
  EXPECT_FALSE(can_read(mapped, kPages * page_));
  EXPECT_FALSE(can_write(mapped, kPages * page_));
  ::munmap(mapped, kPages * page_);
}

// The query leaves untouched memory alone; touching it allocates pages.
TEST_P(ReachableMemoryTest, AProcessThatHadNoDescriptorLeftAsksTheKernelAgain) {
  const auto begin = reinterpret_cast<std::uintptr_t>(base_);
  if (GetParam() != Way::any) GTEST_SKIP() << "of the one way that chooses";
  if (is_mapped_for(begin, begin + kPages * page_, Access::read) == Mapped::never) GTEST_SKIP() << "before Linux 6.11";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool is_there = can_read(base_, kPages * page_);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(is_there);
  char* const untouched = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);

  EXPECT_TRUE(can_read(untouched, kPages * page_));

  std::vector<unsigned char> is_resident(kPages);
  ASSERT_EQ(::mincore(untouched, kPages * page_, is_resident.data()), 0);
  EXPECT_EQ(std::count(is_resident.begin(), is_resident.end(), 0), kPages);
  ::munmap(untouched, kPages * page_);
}

TEST_P(ReachableMemoryTest, ARangeThatNoAddressSpaceHoldsIsNot) {
  EXPECT_FALSE(is_reachable(base_, SIZE_MAX, Access::read));
  EXPECT_TRUE(is_reachable(nullptr, 0, Access::read));
}

}  // namespace
}  // namespace penstock::core
