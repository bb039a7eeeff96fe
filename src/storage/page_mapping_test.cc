// SPDX-License-Identifier: Apache-2.0

#include "storage/page_mapping.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "fakes/forbidden_calls.h"

namespace penstock::core {
namespace {

constexpr std::size_t kSize = 64 * 4096;

class PageMappingTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "page_mapping_XXXXXX";
    fd_ = UniqueFd(::mkstemp(name));
    ASSERT_TRUE(fd_.valid());
    ::unlink(name);
    const std::string content(kSize, 'a');
    ASSERT_EQ(::pwrite(fd_.get(), content.data(), content.size(), 0), static_cast<ssize_t>(kSize));
  }
  PageMapping map() { return std::move(*PageMapping::open(fd_.get(), 0, kSize, false)); }
  PageWatch watch() { return std::move(*PageWatch::open()); }

  UniqueFd fd_;
};

TEST_F(PageMappingTest, PagesThatAreLeftAloneStay) {
  const PageMapping mapping = map();
  EXPECT_TRUE(watch().are_present(mapping.data(), kSize));
  EXPECT_TRUE(watch().are_present(mapping.data() + 5000, 1));
}

TEST_F(PageMappingTest, WritesLeaveThePagesInPlace) {
  const PageMapping mapping = map();
  ASSERT_EQ(::pwrite(fd_.get(), "b", 1, 9000), 1);
  EXPECT_TRUE(watch().are_present(mapping.data(), kSize));
}

TEST_F(PageMappingTest, ATruncationIsSeenAlsoWhenTheFileHasGrownAgain) {
  const PageMapping mapping = map();
  ASSERT_EQ(::ftruncate(fd_.get(), 10 * 4096), 0);
  ASSERT_EQ(::ftruncate(fd_.get(), kSize), 0);
  EXPECT_FALSE(watch().are_present(mapping.data(), kSize));
  EXPECT_FALSE(watch().are_present(mapping.data() + 10 * 4096, 1));
}

TEST_F(PageMappingTest, APunchedHoleIsSeen) {
  const PageMapping mapping = map();
  if (::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096) != 0) {
    GTEST_SKIP() << "the file system here punches no holes";
  }
  EXPECT_FALSE(watch().are_present(mapping.data(), 3 * 4096));
}

TEST_F(PageMappingTest, ADirectWriteIsSeen) {
  const PageMapping mapping = map();
  const UniqueFd direct(::open(("/proc/self/fd/" + std::to_string(fd_.get())).c_str(), O_RDWR | O_DIRECT));
  if (!direct.valid()) GTEST_SKIP() << "the file system here does no direct I/O";
  void* block = nullptr;
  ASSERT_EQ(::posix_memalign(&block, 4096, 4096), 0);
  const ssize_t written = ::pwrite(direct.get(), block, 4096, 8192);
  ::free(block);
  if (written != 4096) GTEST_SKIP() << "the file system here does no direct I/O";
  EXPECT_FALSE(watch().are_present(mapping.data() + 8192, 4096));
}

TEST_F(PageMappingTest, WhatIsBehindTheEndOfTheFileIsNotThere) {
  const PageMapping mapping = std::move(*PageMapping::open(fd_.get(), 0, 2 * kSize, false));
  EXPECT_TRUE(watch().are_present(mapping.data(), kSize));
  EXPECT_FALSE(watch().are_present(mapping.data(), kSize + 1));
}

// In the page table a guard looks much like a page that is being migrated.
TEST_F(PageMappingTest, AGuardIsNoPageThatIsBeingMoved) {
  constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL, of files' mappings since Linux 6.15.
  const PageMapping mapping = map();
  if (::madvise(mapping.data() + 3 * 4096, 4096, kGuardInstall) != 0) {
    GTEST_SKIP() << "this kernel puts no guard into a file's mapping";
  }

  EXPECT_EQ(watch().look(mapping.data(), kSize), PageWatch::Presence::gone);
  EXPECT_FALSE(watch().are_present(mapping.data(), kSize));
  EXPECT_EQ(watch().look(mapping.data() + 4 * 4096, kSize - 4 * 4096), PageWatch::Presence::there);
}

// Kernels before 6.7 have no call that searches the page table; their entries are read, 512 at a time.
int look_by_entries(int fd) {
  constexpr std::size_t kMany = 1100 * 4096;
  if (!forbid_calls({SYS_ioctl}, ENOTTY)) return kFiltersRefused;
  if (::posix_fallocate(fd, 0, kMany) != 0) return 1;
  const Result<PageMapping> mapping = PageMapping::open(fd, 0, kMany, false);
  const Result<PageWatch> watch = PageWatch::open();
  if (!mapping.ok() || !watch.ok()) return 2;
  if (!watch->are_present(mapping->data(), kMany)) return 3;
  if (::ftruncate(fd, kMany - 4096) != 0 || ::ftruncate(fd, kMany) != 0) return 4;
  if (watch->look(mapping->data(), kMany) != PageWatch::Presence::gone) return 5;
  if (watch->are_present(mapping->data() + kMany - 4096, 1)) return 6;
  return watch->are_present(mapping->data(), kMany - 4096) ? 0 : 7;
}

TEST_F(PageMappingTest, WithoutTheCallThatSearchesThePageTableItsEntriesTellTheSame) {
  const int outcome = in_child([&] { return look_by_entries(fd_.get()); });
  if (outcome == kFiltersRefused) GTEST_SKIP() << "seccomp filters are refused here";
  EXPECT_EQ(outcome, 0);
}

}  // namespace
}  // namespace penstock::core
