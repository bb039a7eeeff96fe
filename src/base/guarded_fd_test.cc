// SPDX-License-Identifier: Apache-2.0

#include "base/guarded_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <optional>

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
