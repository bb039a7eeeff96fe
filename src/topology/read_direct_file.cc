// SPDX-License-Identifier: Apache-2.0

// Asks the kernel for the facts of an open file: statx, inode flags, extents.
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdio>

#include "topology/direct_file.h"
#include "topology/extent_reader.h"

namespace penstock::core {
namespace {

constexpr std::uint32_t kStatxMountId = 0x1000;      // STATX_MNT_ID, Linux 5.8.
constexpr std::uint32_t kStatxDirectAlign = 0x2000;  // STATX_DIOALIGN, Linux 6.1.

Tristate tristate(bool value) { return value ? Tristate::yes : Tristate::no; }

void read_statx(int fd, DirectFile& file) {
  struct statx answer {};
  if (::statx(fd, "", AT_EMPTY_PATH, kStatxMountId | kStatxDirectAlign, &answer) != 0) return;
  if ((answer.stx_mask & kStatxMountId) != 0 && answer.stx_mnt_id <= INT_MAX) {
    file.mount_id = static_cast<int>(answer.stx_mnt_id);
  }
  const auto attribute = [&](std::uint64_t bit, Tristate& fact) {
    if ((answer.stx_attributes_mask & bit) != 0) fact = tristate((answer.stx_attributes & bit) != 0);
  };
  attribute(STATX_ATTR_COMPRESSED, file.is_compressed);
  attribute(STATX_ATTR_DAX, file.is_dax);
  attribute(STATX_ATTR_ENCRYPTED, file.is_encrypted);
  attribute(STATX_ATTR_VERITY, file.is_verity);
  if ((answer.stx_mask & kStatxDirectAlign) == 0) return;
  file.direct_memory_align = answer.stx_dio_mem_align;
  file.direct_offset_align = answer.stx_dio_offset_align;
  file.takes_direct_io = tristate(answer.stx_dio_mem_align != 0 && answer.stx_dio_offset_align != 0);
}

// Reads the flags that chattr shows. Some flags have a meaning on one file system only.
void read_inode_flags(int fd, DirectFile& file) {
  int flags = 0;
  struct statfs facts {};
  if (::ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0 || ::fstatfs(fd, &facts) != 0) return;
  const auto has = [&](unsigned flag) { return tristate((static_cast<unsigned>(flags) & flag) != 0); };
  if (file.is_compressed == Tristate::unknown) file.is_compressed = has(FS_COMPR_FL);
  if (file.is_encrypted == Tristate::unknown) file.is_encrypted = has(FS_ENCRYPT_FL);
  if (file.is_verity == Tristate::unknown) file.is_verity = has(FS_VERITY_FL);
  file.has_inline_data = has(FS_INLINE_DATA_FL);
  if (facts.f_type == BTRFS_SUPER_MAGIC) file.is_copied_on_write = tristate(has(FS_NOCOW_FL) == Tristate::no);
  if (facts.f_type != EXT4_SUPER_MAGIC) return;
  file.is_journaled = has(FS_JOURNAL_DATA_FL);
  file.has_block_map = tristate(has(FS_EXTENT_FL) == Tristate::no && file.has_inline_data == Tristate::no);
}

// On XFS, a file whose blocks lie on the device for realtime data, not on the one that its st_dev names.
void read_realtime(int fd, DirectFile& file) {
  fsxattr facts{};
  if (::ioctl(fd, FS_IOC_FSGETXATTR, &facts) != 0) return;
  file.is_realtime = tristate((facts.fsx_xflags & FS_XFLAG_REALTIME) != 0);
}

class ExtentCounter {
 public:
  ExtentCounter(std::uint64_t begin, std::uint64_t end) : at_(begin), end_(end) {}

  void count(const fiemap_extent& extent) {
    const std::uint64_t start = extent.fe_logical;
    const std::uint64_t length = std::min<std::uint64_t>(extent.fe_length, UINT64_MAX - start);
    const std::uint64_t begin = std::clamp(start, at_, end_);
    const std::uint64_t end = std::clamp(start + length, begin, end_);
    const std::uint64_t size = end - begin;
    ++extents_.count;
    extents_.hole_bytes += begin - at_;
    const auto add = [&](std::uint32_t flag, std::uint64_t& bytes) {
      if ((extent.fe_flags & flag) != 0) bytes += size;
    };
    add(FIEMAP_EXTENT_UNWRITTEN, extents_.unwritten_bytes);
    add(FIEMAP_EXTENT_SHARED, extents_.shared_bytes);
    add(FIEMAP_EXTENT_DATA_INLINE, extents_.inline_bytes);
    add(FIEMAP_EXTENT_DELALLOC, extents_.delayed_bytes);
    if ((extent.fe_flags & FIEMAP_EXTENT_DATA_ENCRYPTED) != 0) {
      extents_.encrypted_bytes += size;
    } else {
      add(FIEMAP_EXTENT_ENCODED, extents_.encoded_bytes);
    }
    at_ = end;
  }
  std::uint64_t at() const { return at_; }
  FileExtents result(bool is_complete) {
    if (is_complete) extents_.hole_bytes += end_ - at_;
    extents_.is_known = true;
    extents_.is_complete = is_complete;
    return extents_;
  }
  std::uint64_t seen() const { return extents_.count; }

 private:
  FileExtents extents_;
  std::uint64_t at_;
  std::uint64_t end_;
};

FileExtents read_extents(int fd, std::uint64_t begin, std::uint64_t end) {
  ExtentReader reader(fd, begin, end, 0);
  ExtentCounter counter(begin, end);
  while (counter.seen() < kExtentsMax) {
    const auto extents = reader.next();
    if (!extents.ok()) return counter.seen() == 0 ? FileExtents{} : counter.result(counter.at() >= end);
    if (extents->empty()) return counter.result(true);
    for (const fiemap_extent& extent : *extents) counter.count(extent);
  }
  return counter.result(counter.at() >= end);
}

std::string path_of(int fd) {
  char name[64];
  char target[PATH_MAX];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  const ssize_t size = ::readlink(name, target, sizeof target);
  if (size <= 0 || target[0] != '/') return {};
  return std::string(target, static_cast<std::size_t>(size));
}

// Opens a second descriptor, as a transfer would, and closes it at once.
int try_direct(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_DIRECT) != 0) return 0;
  char name[64];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  const UniqueFd second(::open(name, (flags & O_ACCMODE) | O_DIRECT | O_CLOEXEC | O_NONBLOCK));
  return second.valid() ? 0 : errno;
}

}  // namespace

Result<DirectFile> read_direct_file(int fd, std::uint64_t offset, std::uint64_t size) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return os_failure(errno, "look at the file");
  if (!S_ISREG(facts.st_mode) && !S_ISBLK(facts.st_mode)) {
    return failure(Code::unsupported_file, "look at how the file is stored");
  }
  DirectFile file;
  file.path = path_of(fd);
  file.is_block_device = S_ISBLK(facts.st_mode);
  const dev_t device = file.is_block_device ? facts.st_rdev : facts.st_dev;
  file.device = {gnu_dev_major(device), gnu_dev_minor(device)};
  read_statx(fd, file);
  file.direct_error = try_direct(fd);
  if (file.is_block_device) return file;
  file.size = static_cast<std::uint64_t>(facts.st_size);
  read_inode_flags(fd, file);
  read_realtime(fd, file);
  const std::uint64_t begin = std::min(offset, file.size);
  file.extents = read_extents(fd, begin, begin + std::min(size, file.size - begin));
  file.allocated_behind_end = read_extents(fd, file.size, INT64_MAX).unwritten_bytes;
  return file;
}

}  // namespace penstock::core
