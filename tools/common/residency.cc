// SPDX-License-Identifier: Apache-2.0

#include "tools/common/residency.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "base/page_size.h"

namespace penstock::tools {
namespace {

constexpr long kCachestat = 451;  // The same number on every architecture.
struct Range {
  std::uint64_t offset, length;
};
struct Counts {
  std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

// True if this user may see what is cached: mincore(2) answers to all others that everything is.
bool may_ask(int fd, const struct stat& facts) {
  if (facts.st_uid == geteuid() || geteuid() == 0) return true;
  return access(("/proc/self/fd/" + std::to_string(fd)).c_str(), W_OK) == 0;
}

// For kernels before Linux 6.5. Goes window by window, since the kernel writes one byte for each page.
std::optional<std::uint64_t> count_mapped(int fd, std::uint64_t begin, std::uint64_t end) {
  constexpr std::uint64_t kWindow = std::uint64_t{1} << 30;
  const std::uint64_t page = core::page_size();
  std::vector<unsigned char> is_there(kWindow / page);
  std::uint64_t pages = 0;
  for (std::uint64_t at = begin / page * page; at < end; at += kWindow) {
    const std::uint64_t size = std::min(kWindow, end - at);
    void* const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(at));
    if (mapped == MAP_FAILED) return std::nullopt;
    const bool told = mincore(mapped, size, is_there.data()) == 0;
    munmap(mapped, size);
    if (!told) return std::nullopt;
    const auto last = is_there.begin() + static_cast<std::ptrdiff_t>((size + page - 1) / page);
    pages += static_cast<std::uint64_t>(std::count_if(is_there.begin(), last, [](unsigned char c) { return c & 1; }));
  }
  return pages * page;
}

}  // namespace

std::optional<std::uint64_t> cached_bytes(int fd, std::uint64_t offset, std::uint64_t size) {
  struct stat facts {};
  struct statfs place {};
  if (::fstat(fd, &facts) != 0 || ::fstatfs(fd, &place) != 0) return std::nullopt;
  // The pages of a file on an overlay belong to another file system.
  if (place.f_type == OVERLAYFS_SUPER_MAGIC || !S_ISREG(facts.st_mode)) return std::nullopt;
  const auto file_size = static_cast<std::uint64_t>(facts.st_size);
  if (offset >= file_size) return 0;
  const std::uint64_t asked = size == 0 ? file_size - offset : std::min(size, file_size - offset);
  Range range{offset, asked};
  Counts counts{};
  if (::syscall(kCachestat, fd, &range, &counts, 0) == 0) return std::min(counts.cached * core::page_size(), asked);
  if (errno != ENOSYS || !may_ask(fd, facts)) return std::nullopt;
  const auto counted = count_mapped(fd, offset, offset + asked);
  return counted ? std::optional(std::min(*counted, asked)) : std::nullopt;
}

}  // namespace penstock::tools
