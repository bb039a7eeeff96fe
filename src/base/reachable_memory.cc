// SPDX-License-Identifier: Apache-2.0

#include "base/reachable_memory.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/align.h"
#include "base/missing_call.h"
#include "base/page_size.h"
#include "base/unique_fd.h"

namespace penstock::core {
namespace {

// Below this size, touching each page takes no longer than the query.
constexpr std::size_t kFewBytes = 256u << 10;

// From linux/mman.h of 5.14 and linux/fs.h of 6.11.
constexpr int kPopulateRead = 22, kPopulateWrite = 23;
constexpr std::uint64_t kReadable = 1, kWritable = 2;
struct MapsQuery {
  std::uint64_t size = sizeof(MapsQuery);
  std::uint64_t query_flags = 0;  // Asks for the mapping that holds the address, and no other.
  std::uint64_t query_address = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t flags = 0;
  std::uint64_t page_size = 0;
  std::uint64_t offset = 0;
  std::uint64_t inode = 0;
  std::uint32_t device[2] = {};
  std::uint32_t name_size = 0;
  std::uint32_t build_id_size = 0;
  std::uint64_t name = 0;
  std::uint64_t build_id = 0;
};
constexpr unsigned long kMapsQuery = _IOWR('f', 17, MapsQuery);

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

// Makes the kernel fault the pages in. Returns 0 or an errno.
int populate(std::uintptr_t begin, std::uintptr_t end, int advice) {
  int result;
  do result = ::madvise(at(begin), end - begin, advice);
  while (result != 0 && (errno == EINTR || errno == EAGAIN));
  return result == 0 ? 0 : errno;
}

// Uses a call that reads eight bytes before it finds its first argument wrong.
bool can_read_page(std::uintptr_t page) {
  return ::syscall(SYS_rt_sigprocmask, ~0, at(page), nullptr, 8) == 0 || errno != EFAULT;
}

bool can_read_pages(std::uintptr_t begin, std::uintptr_t end) {
  for (std::uintptr_t page = begin; page < end; page += page_size()) {
    if (!can_read_page(page)) return false;
  }
  return true;
}

}  // namespace

// EINVAL means that the kernel does not know the advice, forbids the access, or skips the mapping because it is a
// driver's. Memory that can be populated for reading but not for writing is read-only.
bool are_pages_reachable(std::uintptr_t begin, std::uintptr_t end, Access access) {
  const int error = populate(begin, end, access == Access::read ? kPopulateRead : kPopulateWrite);
  if (error == 0) return true;
  if (error != EINVAL && error != EPERM && error != ENOSYS) return false;
  if (access == Access::write && populate(begin, end, kPopulateRead) == 0) return false;
  return can_read_pages(begin, end);
}

// Pages behind a mapped file's end are not usable; touching the last page detects this.
Mapped is_mapped_for(std::uintptr_t begin, std::uintptr_t end, Access access) {
  const UniqueFd maps(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (!maps.valid()) return Mapped::unknown;
  const std::uint64_t wanted = access == Access::read ? kReadable : kWritable;
  for (std::uintptr_t next = begin; next < end;) {
    MapsQuery query;
    query.query_address = next;
    if (::ioctl(maps.get(), kMapsQuery, &query) != 0) {
      if (errno == ENOENT) return Mapped::no;
      return errno == ENOTTY || is_missing_in_file_system(errno) ? Mapped::never : Mapped::unknown;
    }
    if ((query.flags & wanted) == 0) return Mapped::no;
    next = std::min<std::uintptr_t>(query.end, end);
    const bool is_file = query.inode != 0;
    if (is_file && !are_pages_reachable(align_down(next - 1, page_size()), next, access)) return Mapped::no;
  }
  return Mapped::yes;
}

bool is_reachable(const void* memory, std::size_t size, Access access) {
  if (size == 0) return true;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  if (size > UINTPTR_MAX - address) return false;
  const std::uintptr_t begin = align_down(address, page_size());
  if (static std::atomic<bool> can_ask{true}; size > kFewBytes && can_ask.load(std::memory_order_relaxed)) {
    const Mapped answer = is_mapped_for(begin, address + size, access);
    if (answer == Mapped::yes || answer == Mapped::no) return answer == Mapped::yes;
    if (answer == Mapped::never) can_ask.store(false, std::memory_order_relaxed);
  }
  return are_pages_reachable(begin, address + size, access);
}

}  // namespace penstock::core
