// SPDX-License-Identifier: Apache-2.0

#include "base/guarded_fd.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdint>

namespace penstock::core {
namespace {

constexpr std::uint64_t kPositions = std::uint64_t{1} << 40;  // Every file system of Linux takes positions below it.

// A block device has no position behind its end.
std::uint64_t positions_of(int fd, const struct stat& facts) {
  if (S_ISREG(facts.st_mode)) return kPositions;
  const off_t end = S_ISBLK(facts.st_mode) ? ::lseek(fd, 0, SEEK_END) : 0;
  return end < 0 ? 0 : static_cast<std::uint64_t>(end);
}

// Odd, where no direct transfer ends.
off_t take_position(int fd, const struct stat& facts) {
  const std::uint64_t positions = positions_of(fd, facts);
  std::uint64_t number = 0;
  if (positions == 0 || ::getrandom(&number, sizeof number, 0) != sizeof number) return -1;
  return ::lseek(fd, static_cast<off_t>(number % positions | 1), SEEK_SET);
}

}  // namespace

GuardedFd::GuardedFd(UniqueFd fd) : fd_(std::move(fd)) {
  if (fd_.valid() && ::fstat(fd_.get(), &facts_) == 0) position_ = take_position(fd_.get(), facts_);
}

bool GuardedFd::is_ours() const {
  struct stat now {};
  if (::fstat(fd_.get(), &now) != 0 || now.st_dev != facts_.st_dev || now.st_ino != facts_.st_ino) return false;
  return position_ < 0 || ::lseek(fd_.get(), 0, SEEK_CUR) == position_;
}

}  // namespace penstock::core
