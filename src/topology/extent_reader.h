// SPDX-License-Identifier: Apache-2.0

// Reads where the bytes of an open file lie, from FIEMAP, a batch at a time. Judges nothing.
#pragma once

#include <linux/fiemap.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace penstock::core {

class ExtentReader {
 public:
  // The extents that touch [begin, end). `flags` is 0 or FIEMAP_FLAG_SYNC, which first writes dirty pages back.
  ExtentReader(int fd, std::uint64_t begin, std::uint64_t end, std::uint32_t flags)
      : fd_(fd), flags_(flags), next_(begin), end_(end) {}

  // The next extents in the order of the file, valid until the next call; none at the end. The kernel may begin the
  // first one before `begin`. Fails with the errno of the ioctl, and with EIO if the kernel's answer goes backwards.
  Result<std::span<const fiemap_extent>> next();

 private:
  static constexpr std::uint32_t kBatch = 128;

  const int fd_;
  const std::uint32_t flags_;
  std::uint64_t next_;
  const std::uint64_t end_;
  alignas(fiemap) std::byte space_[sizeof(fiemap) + kBatch * sizeof(fiemap_extent)];
};

}  // namespace penstock::core
