// SPDX-License-Identifier: Apache-2.0

// A file system without a byte to spare. Runs alone: the other tests share these file systems.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "contract/fixture.h"

namespace penstock::core {
namespace {

class FullDiskTest : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Fixtures, FullDiskTest, testing::ValuesIn(kernel_fixtures()), fixture_name);

TEST_P(FullDiskTest, IsToldAsSuch) {
  if (fixture().file_system == "btrfs" || fixture().file_system == "overlay" || fixture().file_system == "local") {
    GTEST_SKIP() << "cannot be filled to a byte without harm: " << fixture().file_system;
  }
  const std::string filler_name = fixture().directory + "/filler";
  const UniqueFd filler(::open(filler_name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  struct statvfs space {};
  ASSERT_EQ(::fstatvfs(filler.get(), &space), 0);
  if (space.f_bavail * space.f_frsize > std::uint64_t{1} << 30) {
    ::unlink(filler_name.c_str());
    GTEST_SKIP() << "more than a gibibyte is free on " << fixture().file_system << ": too much to fill up";
  }
  for (off_t step = 64 << 20, at = 0; step >= 4096;) {
    if (::fallocate(filler.get(), 0, at, step) == 0) at += step;
    else step /= 2;
  }
  std::byte* memory = allocate(16 << 20);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);

  const Outcome outcome = write(file, memory, 16 << 20, 0);
  ::unlink(filler_name.c_str());

  EXPECT_TRUE(outcome.status.is_errno(ENOSPC)) << describe(outcome.status);
  EXPECT_NE(describe(outcome.status).find("write to the file"), std::string::npos);
}

}  // namespace
}  // namespace penstock::core
