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
#include <chrono>
#include <thread>

#include "base/align.h"
#include "base/page_size.h"

namespace penstock::core {
namespace {

using namespace std::chrono_literals;

// Bits of an entry in /proc/PID/pagemap. A file page is never swapped out; if it is marked as swapped, the kernel is
// migrating it, or its memory has failed.
constexpr std::uint64_t kPresent = std::uint64_t{1} << 63, kMoving = std::uint64_t{3} << 61;
// The same bits in PAGEMAP_SCAN.
constexpr std::uint64_t kPageIsPresent = 1u << 3, kPageIsMoving = 1u << 4 | 1u << 2;
// The kernel migrates a page within microseconds, unless it is preempted (13 ms on a busy machine).
constexpr auto kMoveMax = 20ms;
constexpr auto kLooksApart = 20us;

// The argument of PAGEMAP_SCAN, as <linux/fs.h> has it since Linux 6.7.
struct ScanArgument {
  std::uint64_t size, flags, start, end, walk_end, regions, region_count, pages_max;
  std::uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct ScanRegion {
  std::uint64_t start, end, categories;
};
const unsigned long kPagemapScan = _IOWR('f', 16, ScanArgument);

// Searches for the first absent page. Negative if the kernel does not have the call.
int scan_for_absent(int pagemap, std::uint64_t begin, std::uint64_t end, ScanRegion& region) {
  ScanArgument argument{};
  argument.size = sizeof argument;
  argument.start = begin;
  argument.end = end;
  argument.regions = reinterpret_cast<std::uintptr_t>(&region);
  argument.region_count = 1;
  argument.pages_max = 1;
  argument.category_inverted = kPageIsPresent;
  argument.category_mask = kPageIsPresent;
  argument.return_mask = kPageIsPresent | kPageIsMoving;
  return ::ioctl(pagemap, kPagemapScan, &argument);
}

}  // namespace

Result<PageMapping> PageMapping::open(int fd, std::uint64_t offset, std::size_t size, bool writable) {
  // The kernel maps a huge page as a whole, whatever the size.
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
  // Tries the call on the page of this function; its result does not matter, only that it works.
  const std::uint64_t here = align_down(reinterpret_cast<std::uintptr_t>(&scan_for_absent), page_size());
  ScanRegion ignored{};
  const bool scans = scan_for_absent(pagemap.get(), here, here + page_size(), ignored) >= 0;
  return PageWatch(std::move(pagemap), scans);
}

PageWatch::Presence PageWatch::look(const std::byte* memory, std::size_t size) const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uint64_t begin = align_down(address, page_size()), end = align_up(address + size, page_size());
  return scans_ ? scan(begin, end) : read_entries(begin, end);
}

bool PageWatch::are_present(const std::byte* memory, std::size_t size) const {
  Presence presence = look(memory, size);
  if (presence != Presence::moving) return presence == Presence::there;
  const auto give_up = std::chrono::steady_clock::now() + kMoveMax;
  while (presence == Presence::moving && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(kLooksApart);
    presence = look(memory, size);
  }
  return presence == Presence::there;
}

PageWatch::Presence PageWatch::scan(std::uint64_t begin, std::uint64_t end) const {
  ScanRegion region{};
  const int found = scan_for_absent(pagemap_.get(), begin, end, region);
  if (found == 0) return Presence::there;
  const bool is_moving = found > 0 && (region.categories & kPageIsMoving) == kPageIsMoving;
  // A failed call counts as gone: no page is known to be present.
  return is_moving ? Presence::moving : Presence::gone;
}

PageWatch::Presence PageWatch::read_entries(std::uint64_t begin, std::uint64_t end) const {
  constexpr std::uint64_t kEntries = 512;
  std::uint64_t entries[kEntries];
  const std::uint64_t last = end / page_size();
  for (std::uint64_t page = begin / page_size(); page < last;) {
    const std::uint64_t count = std::min(kEntries, last - page);
    const auto bytes = static_cast<ssize_t>(count * sizeof entries[0]);
    if (::pread(pagemap_.get(), entries, count * sizeof entries[0], static_cast<off_t>(page * sizeof entries[0])) !=
        bytes) {
      return Presence::gone;
    }
    const auto is_absent = [](std::uint64_t entry) { return (entry & kPresent) == 0; };
    const auto* const absent = std::find_if(entries, entries + count, is_absent);
    if (absent != entries + count) return (*absent & kMoving) == kMoving ? Presence::moving : Presence::gone;
    page += count;
  }
  return Presence::there;
}

}  // namespace penstock::core
