// SPDX-License-Identifier: Apache-2.0

#include "topology/extent_reader.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace penstock::core {
namespace {

std::uint64_t end_of(const fiemap_extent& extent) {
  return extent.fe_logical + std::min<std::uint64_t>(extent.fe_length, UINT64_MAX - extent.fe_logical);
}

}  // namespace

Result<std::span<const fiemap_extent>> ExtentReader::next() {
  if (next_ >= end_) return std::span<const fiemap_extent>();
  std::memset(space_, 0, sizeof(fiemap));
  auto* map = reinterpret_cast<fiemap*>(space_);
  map->fm_start = next_;
  map->fm_length = end_ - next_;
  map->fm_flags = flags_;
  map->fm_extent_count = kBatch;
  if (::ioctl(fd_, FS_IOC_FIEMAP, map) != 0) return os_failure(errno, "read where the file lies");
  const std::uint32_t got = std::min(map->fm_mapped_extents, kBatch);
  const auto* extents = reinterpret_cast<const fiemap_extent*>(space_ + sizeof(fiemap));
  const bool is_last = got < kBatch || (extents[got - 1].fe_flags & FIEMAP_EXTENT_LAST) != 0;
  const std::uint64_t reached = is_last ? end_ : end_of(extents[got - 1]);
  if (reached <= next_) return os_failure(EIO, "read where the file lies");
  next_ = reached;
  return std::span(extents, got);
}

}  // namespace penstock::core
