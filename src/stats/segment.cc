// SPDX-License-Identifier: Apache-2.0

#include "stats/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/new_file.h"
#include "base/shortage.h"

namespace penstock::core {
namespace {

constexpr const char* kStep = "share the statistics with other processes";
constexpr unsigned kNoExecSeal = 0x8;  // MFD_NOEXEC_SEAL, which Linux 6.3 and later may require.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

int make_memfd(const char* name) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = ::memfd_create(name, kFlags | kNoExecSeal);
  return fd >= 0 || errno != EINVAL ? fd : ::memfd_create(name, kFlags);
}

}  // namespace

Segment::Segment(const char* name, std::size_t size) : size_(size), sharing_(share(name)) {
  if (sharing_.ok()) return;
  fd_.reset();
  void* const memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) memory_is_short();
  data_ = static_cast<std::byte*>(memory);
}

Status Segment::share(const char* name) {
  if (!is_within_file_size_limit(size_)) return os_failure(EFBIG, kStep);
  fd_.reset(make_memfd(name));
  if (!fd_.valid() || ::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) return os_failure(errno, kStep);
  struct stat facts {};
  if (::fstat(fd_.get(), &facts) != 0) return os_failure(errno, kStep);
  device_ = facts.st_dev;
  inode_ = facts.st_ino;
  void* const memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (memory == MAP_FAILED) return os_failure(errno, kStep);
  // Readers require the first two seals: otherwise shrinking the segment could crash them. The third prevents them from
  // writing; older kernels lack it.
  if (::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    const int error_number = errno;
    ::munmap(memory, size_);
    return os_failure(error_number, kStep);
  }
  (void)::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
  data_ = static_cast<std::byte*>(memory);
  return success();
}

Segment::~Segment() {
  ::munmap(data_, size_);
  struct stat facts {};
  const bool is_ours =
      fd_.valid() && ::fstat(fd_.get(), &facts) == 0 && facts.st_dev == device_ && facts.st_ino == inode_;
  if (!is_ours) (void)fd_.release();
}

}  // namespace penstock::core
