// SPDX-License-Identifier: Apache-2.0

// Zeroed memory that other processes of the same user, and root, can read: a memfd, found through /proc/PID/fd. So no
// file remains however the process ends, no name can be guessed or prepared, and the kernel decides who may read it. If
// the kernel refuses a memfd it is plain memory, and sharing() says why.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "base/status.h"
#include "base/unique_fd.h"

namespace penstock::core {

class Segment {
 public:
  Segment(const char* name, std::size_t size);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  const Status& sharing() const { return sharing_; }

 private:
  Status share(const char* name);

  const std::size_t size_;
  std::byte* data_ = nullptr;
  UniqueFd fd_;
  dev_t device_ = 0;  // Identify the memfd: a program may close our descriptor, and its number may be reused.
  ino_t inode_ = 0;
  Status sharing_;
};

}  // namespace penstock::core
