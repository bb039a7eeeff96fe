// SPDX-License-Identifier: Apache-2.0

// Owns a descriptor that the program may close by its number (closefrom) and open something else by: whoever keeps one
// for long asks is_ours() before a use, and the destructor closes no other file. Inodes tell the files apart: another
// open of the same file under the same number is taken for ours, and the class is not for anonymous files that share an
// inode, as rings do.
#pragma once

#include <sys/stat.h>

#include <utility>

#include "base/unique_fd.h"

namespace penstock::core {

class GuardedFd {
 public:
  GuardedFd() = default;
  explicit GuardedFd(UniqueFd fd) : fd_(std::move(fd)) {
    if (fd_.valid()) (void)::fstat(fd_.get(), &facts_);
  }
  GuardedFd(GuardedFd&& other) noexcept { swap(other); }
  GuardedFd& operator=(GuardedFd&& other) noexcept {
    GuardedFd(std::move(other)).swap(*this);
    return *this;
  }
  ~GuardedFd() {
    if (fd_.valid() && !is_ours()) (void)fd_.release();
  }

  int get() const { return fd_.get(); }
  // Costs a system call.
  bool is_ours() const {
    struct stat now {};
    return ::fstat(fd_.get(), &now) == 0 && now.st_dev == facts_.st_dev && now.st_ino == facts_.st_ino;
  }

 private:
  void swap(GuardedFd& other) {
    std::swap(fd_, other.fd_);
    std::swap(facts_, other.facts_);
  }

  UniqueFd fd_;
  struct stat facts_ {};  // Taken when it got the descriptor.
};

}  // namespace penstock::core
