// SPDX-License-Identifier: Apache-2.0

#include "tools/prepare/zeros.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/progress.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{4} << 20;

struct FileRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The first range at or after `from` that reads as zeros because nothing was ever written there.
std::optional<FileRange> next_unwritten(const std::string& path, int fd, std::uint64_t from, std::uint64_t end) {
  constexpr std::uint32_t kBatch = 32;
  alignas(fiemap) char space[sizeof(fiemap) + kBatch * sizeof(fiemap_extent)];
  while (from < end) {
    std::memset(space, 0, sizeof space);
    auto* map = reinterpret_cast<fiemap*>(space);
    map->fm_start = from;
    map->fm_length = end - from;
    map->fm_flags = FIEMAP_FLAG_SYNC;
    map->fm_extent_count = kBatch;
    if (ioctl(fd, FS_IOC_FIEMAP, map) != 0) fail_errno(path, "ask how the file is stored");
    const auto* extents = reinterpret_cast<const fiemap_extent*>(space + sizeof(fiemap));
    const std::uint32_t count = std::min(map->fm_mapped_extents, kBatch);
    std::uint64_t seen = from;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t begin = std::max<std::uint64_t>(extents[i].fe_logical, from);
      const std::uint64_t stop = std::min<std::uint64_t>(extents[i].fe_logical + extents[i].fe_length, end);
      if ((extents[i].fe_flags & FIEMAP_EXTENT_UNWRITTEN) != 0 && begin < stop) return FileRange{begin, stop};
      seen = std::max(seen, stop);
    }
    if (count < kBatch || seen <= from) return std::nullopt;
    from = seen;
  }
  return std::nullopt;
}

class ZeroWriter {
 public:
  ZeroWriter(const std::string& path, int fd)
      : path_(path), fd_(fd), zeros_(static_cast<char*>(std::aligned_alloc(kZeroBlock, kPiece)), &std::free) {
    if (zeros_ == nullptr) fail_errno(path, "get memory for zeros", ENOMEM);
    std::memset(zeros_.get(), 0, kPiece);
    set_direct(true);
  }
  ZeroWriter(const ZeroWriter&) = delete;
  ZeroWriter& operator=(const ZeroWriter&) = delete;
  ~ZeroWriter() { set_direct(false); }

  void write(FileRange range) {
    while (range.begin < range.end) {
      throw_if_interrupted();
      const std::uint64_t size = std::min(kPiece, range.end - range.begin);
      const ssize_t count = pwrite(fd_, zeros_.get(), size, static_cast<off_t>(range.begin));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EINVAL && is_direct_) {
        set_direct(false);  // Direct I/O needs another alignment here.
        continue;
      }
      if (count <= 0) fail_errno(path_, "write zeros to the file", count == 0 ? EIO : errno);
      range.begin += static_cast<std::uint64_t>(count);
    }
  }

 private:
  // Switches O_DIRECT of the only descriptor, since a second one would break the lease.
  void set_direct(bool value) {
    const int flags = fcntl(fd_, F_GETFL);
    is_direct_ = fcntl(fd_, F_SETFL, value ? flags | O_DIRECT : flags & ~O_DIRECT) == 0 && value;
  }

  const std::string& path_;
  int fd_;
  std::unique_ptr<char, decltype(&std::free)> zeros_;
  bool is_direct_ = false;
};

}  // namespace

std::uint64_t write_unwritten(const std::string& path, int fd, std::uint64_t end,
                              const std::function<void()>& before_each) {
  ZeroWriter writer(path, fd);
  Progress progress("writing zeros");
  std::uint64_t written = 0;
  std::uint64_t at = 0;
  while (const auto range = next_unwritten(path, fd, at, end)) {
    for (at = range->begin; at < range->end;) {
      before_each();
      const FileRange piece{at, std::min(at + kPiece, range->end)};
      writer.write(piece);
      written += piece.end - piece.begin;
      at = piece.end;
      progress.update(written, static_cast<double>(at) / static_cast<double>(end));
    }
  }
  return written;
}

}  // namespace penstock::tools
