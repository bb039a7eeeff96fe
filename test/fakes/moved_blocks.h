// SPDX-License-Identifier: Apache-2.0

// The ways in which a file loses its blocks to others: each takes them from "file", which the descriptor is of, and has
// another file, "taker", write its own bytes to all that is free. They return an errno.
#pragma once

#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>

#include "fakes/file_on_drive.h"
#include "path/dmabuf/extent_map.h"
#include "topology/extent_reader.h"

namespace penstock {

// Where a file lies, without a lease.
inline core::ExtentMap map_of(int fd) {
  core::ExtentMap map;
  map.clear(FilesOnDrive::kBytes, 512);
  core::ExtentReader reader(fd, 0, FilesOnDrive::kBytes, FIEMAP_FLAG_SYNC);
  for (auto extents = reader.next(); extents.ok() && !extents->empty(); extents = reader.next()) {
    for (const fiemap_extent& extent : *extents) (void)map.add(extent);
  }
  return map;
}

// What was freed is free when the journal is committed. Asked for more than there is, ext4 commits again and again.
inline int take_what_is_free(FilesOnDrive& files) {
  files.sync();
  files.write("taker", FilesOnDrive::kForeign, std::min(4 * FilesOnDrive::kBytes, files.room() / 4096 * 4096));
  return 0;
}

inline int move_by_truncating(FilesOnDrive& files, int fd) {
  if (::ftruncate(fd, 0) != 0) return errno;
  return take_what_is_free(files);
}

inline int move_by_punching(FilesOnDrive& files, int fd) {
  constexpr int kMode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (::fallocate(fd, kMode, 0, FilesOnDrive::kBytes) != 0) return errno;
  return take_what_is_free(files);
}

// Online defragmentation, as e4defrag does it: the donor gets the blocks. The kernel moves pages of the page cache, and
// reads those that are not there one by one.
inline int move_by_defragmenting(FilesOnDrive& files, int fd) {
  struct MoveExtent {
    std::uint32_t reserved = 0;
    std::uint32_t donor = 0;
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::uint64_t blocks = FilesOnDrive::kBytes / 4096;
    std::uint64_t moved = 0;
  };
  {
    const core::UniqueFd donor(::open(files.path("donor").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (::fallocate(donor.get(), 0, 0, FilesOnDrive::kBytes) != 0) return errno;
    ::readahead(fd, 0, FilesOnDrive::kBytes);
    MoveExtent move{.donor = static_cast<std::uint32_t>(donor.get())};
    if (::ioctl(fd, _IOWR('f', 15, MoveExtent), &move) != 0) return errno;
  }
  files.remove("donor");
  return take_what_is_free(files);
}

// A snapshot is taken, the file is written anew elsewhere, and the snapshot goes.
inline int move_by_copy_on_write(FilesOnDrive& files, int fd) {
  const core::UniqueFd clone(::open(files.path("clone").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (::ioctl(clone.get(), FICLONE, fd) != 0) return errno;
  const core::UniqueFd direct(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (!files.write(direct.get(), FilesOnDrive::kOwn)) return ENOSPC;
  if (::ftruncate(clone.get(), 0) != 0) return errno;
  files.remove("clone");
  return take_what_is_free(files);
}

// An equal file's blocks become this one's.
inline int move_by_deduplicating(FilesOnDrive& files, int fd) {
  files.remove("equal");
  files.write("equal", FilesOnDrive::kOwn);
  const core::UniqueFd equal(::open(files.path("equal").c_str(), O_RDONLY | O_CLOEXEC));
  alignas(file_dedupe_range) char space[sizeof(file_dedupe_range) + sizeof(file_dedupe_range_info)] = {};
  auto* const range = reinterpret_cast<file_dedupe_range*>(space);
  range->src_length = FilesOnDrive::kBytes;
  range->dest_count = 1;
  range->info[0].dest_fd = fd;
  if (::ioctl(equal.get(), FIDEDUPERANGE, range) != 0) return errno;
  if (range->info[0].status != FILE_DEDUPE_RANGE_SAME) return EIO;
  return take_what_is_free(files);
}

}  // namespace penstock
