// SPDX-License-Identifier: Apache-2.0

#include "storage/page_mapping.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/align.h"
#include "base/page_size.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;  // Of an entry of /proc/PID/pagemap.
constexpr std::uint64_t kPageIsPresent = 1u << 3;           // Of PAGEMAP_SCAN.

// As in <linux/fs.h> since Linux 6.7.
struct ScanArgument {
  std::uint64_t size, flags, start, end, walk_end, regions, region_count, pages_max;
  std::uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct ScanRegion {
  std::uint64_t start, end, categories;
};
const unsigned long kPagemapScan = _IOWR('f', 16, ScanArgument);

// Looks for the first page that is not there. Negative where the kernel does not know the call.
int find_absent(int pagemap, std::uint64_t begin, std::uint64_t end) {
  ScanRegion region{};
  ScanArgument argument{};
  argument.size = sizeof argument;
  argument.start = begin;
  argument.end = end;
  argument.regions = reinterpret_cast<std::uintptr_t>(&region);
  argument.region_count = 1;
  argument.pages_max = 1;
  argument.category_inverted = kPageIsPresent;
  argument.category_mask = kPageIsPresent;
  argument.return_mask = kPageIsPresent;
  return ::ioctl(pagemap, kPagemapScan, &argument);
}

}  // namespace

Result<PageMapping> PageMapping::open(int fd, std::uint64_t offset, std::size_t size, bool writable) {
  // Of a huge page the kernel maps the whole, whatever the size.
  struct statfs file_system {};
  const bool known = ::fstatfs(fd, &file_system) == 0 && file_system.f_type == HUGETLBFS_MAGIC;
  if (known && (offset | size) % static_cast<std::uint64_t>(file_system.f_bsize) != 0) {
    return os_failure(EINVAL, "map the file's huge pages");
  }
  const int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const memory = ::mmap(nullptr, size, access, MAP_SHARED | MAP_POPULATE, fd, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) return os_failure(errno, "map the file's pages");
  ::madvise(memory, size, MADV_DONTFORK);
  PageMapping mapping;
  mapping.data_ = static_cast<std::byte*>(memory);
  mapping.size_ = size;
  return mapping;
}

PageMapping::~PageMapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<PageWatch> PageWatch::open() {
  UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!pagemap.valid()) return os_failure(errno, "open /proc/self/pagemap");
  // Asked about a page of this very function, which may or may not be there.
  const std::uint64_t here = align_down(reinterpret_cast<std::uintptr_t>(&find_absent), page_size());
  const bool scans = find_absent(pagemap.get(), here, here + page_size()) >= 0;
  return PageWatch(std::move(pagemap), scans);
}

bool PageWatch::are_present(const std::byte* memory, std::size_t size) const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uint64_t begin = align_down(address, page_size());
  const std::uint64_t end = align_up(address + size, page_size());
  return scans_ ? find_absent(pagemap_.get(), begin, end) == 0 : are_present_by_entries(begin, end);
}

bool PageWatch::are_present_by_entries(std::uint64_t begin, std::uint64_t end) const {
  constexpr std::uint64_t kEntries = 512;
  std::uint64_t entries[kEntries];
  const std::uint64_t last = end / page_size();
  for (std::uint64_t page = begin / page_size(); page < last;) {
    const std::uint64_t count = std::min(kEntries, last - page);
    const auto bytes = static_cast<ssize_t>(count * sizeof entries[0]);
    if (::pread(pagemap_.get(), entries, count * sizeof entries[0], static_cast<off_t>(page * sizeof entries[0])) !=
        bytes) {
      return false;
    }
    if (!std::all_of(entries, entries + count, [](std::uint64_t entry) { return (entry & kPresent) != 0; }))
      return false;
    page += count;
  }
  return true;
}

}  // namespace penstock::core
