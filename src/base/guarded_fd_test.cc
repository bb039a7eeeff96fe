// SPDX-License-Identifier: Apache-2.0

#include "base/guarded_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <optional>
#include <string>

namespace penstock::core {
namespace {

UniqueFd new_file() { return UniqueFd(::memfd_create("guarded", MFD_CLOEXEC)); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(GuardedFdTest, ClosesItsOwnFileOnce) {
  std::optional<GuardedFd> guarded(new_file());
  const int number = guarded->get();
  EXPECT_TRUE(guarded->is_ours());

  GuardedFd moved = std::move(*guarded);
  guarded.reset();
  EXPECT_TRUE(is_open(number));
  EXPECT_TRUE(moved.is_ours());

  moved = GuardedFd();
  EXPECT_EQ(moved.get(), -1);
  EXPECT_FALSE(is_open(number));
}

TEST(GuardedFdTest, ANumberThatTheProgramClosedIsNotOurs) {
  GuardedFd guarded(new_file());
  ::close(guarded.get());
  EXPECT_FALSE(guarded.is_ours());
}

TEST(GuardedFdTest, AnotherOpenOfTheSameFileIsNotOurs) {
  const UniqueFd file = new_file();
  const std::string name = "/proc/self/fd/" + std::to_string(file.get());
  const auto open = [&] { return UniqueFd(::open(name.c_str(), O_RDWR | O_CLOEXEC)); };
  const GuardedFd guarded(open());
  ASSERT_TRUE(guarded.is_ours());
  const UniqueFd other = open();

  const UniqueFd taken(::dup2(other.get(), guarded.get()));

  EXPECT_FALSE(guarded.is_ours());
}

TEST(GuardedFdTest, ADuplicateUnderItsNumberIsOurs) {
  GuardedFd guarded(new_file());
  const UniqueFd kept(::dup(guarded.get()));
  ::close(guarded.get());
  EXPECT_FALSE(guarded.is_ours());

  ASSERT_EQ(::dup2(kept.get(), guarded.get()), guarded.get());

  EXPECT_TRUE(guarded.is_ours());
}

// Such as a dma-buf, which has an inode of its own.
TEST(GuardedFdTest, AFileWithoutAPositionIsKnownByItsInode) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd writer(ends[1]);
  const GuardedFd guarded{UniqueFd(ends[0])};
  EXPECT_TRUE(guarded.is_ours());
}

TEST(GuardedFdTest, ANumberThatIsAnothersFileNowStaysOpen) {
  std::optional<GuardedFd> guarded(new_file());
  const UniqueFd other = new_file();
  const UniqueFd taken(::dup2(other.get(), guarded->get()));
  EXPECT_FALSE(guarded->is_ours());

  guarded.reset();

  EXPECT_TRUE(is_open(taken.get()));
}

}  // namespace
}  // namespace penstock::core
