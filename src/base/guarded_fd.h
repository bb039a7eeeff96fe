// SPDX-License-Identifier: Apache-2.0

// Owns a descriptor that the program may close by its number (closefrom) and open something else by: whoever keeps one
// for long asks is_ours() before a use, and the destructor closes no other file.
//
// Inodes tell files apart. Several opens of one file are told apart by their position, which is set to a random number:
// it belongs to the open, and nobody moves it, so the owner transfers at offsets alone. Files that have no position,
// such as dma-bufs, must have an inode each. The class is not for those that share one, as rings do.
#pragma once

#include <sys/stat.h>

#include <utility>

#include "base/unique_fd.h"

namespace penstock::core {

class GuardedFd {
 public:
  GuardedFd() = default;
  explicit GuardedFd(UniqueFd fd);
  GuardedFd(GuardedFd&& other) noexcept { swap(other); }
  GuardedFd& operator=(GuardedFd&& other) noexcept {
    GuardedFd(std::move(other)).swap(*this);
    return *this;
  }
  ~GuardedFd() {
    if (fd_.valid() && !is_ours()) (void)fd_.release();
  }

  int get() const { return fd_.get(); }
  // Costs two system calls.
  bool is_ours() const;

 private:
  void swap(GuardedFd& other) {
    std::swap(fd_, other.fd_);
    std::swap(facts_, other.facts_);
    std::swap(position_, other.position_);
  }

  UniqueFd fd_;
  struct stat facts_ {};  // Taken when it got the descriptor.
  off_t position_ = -1;   // The one that it has set; -1 if the file has none.
};

}  // namespace penstock::core
