// SPDX-License-Identifier: Apache-2.0

// The calls on descriptors of simulated files, in place of the C library's. Those on other descriptors are passed on.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "simulation/drive.h"
#include "simulation/files.h"
#include "simulation/leases.h"
#include "simulation/machine.h"
#include "simulation/scheduler.h"

namespace {

using namespace penstock::simulation;

constexpr long kCachestat = 451;
constexpr unsigned kStatxDirectAlign = 0x2000;

void sleep_for(Nanoseconds time) { scheduler().wait(Call::file, nullptr, scheduler().now() + time); }

// In some runs the newer calls are forbidden, as filters of containers do it. Returns an errno, or 0.
int forbidden() {
  static const int error = scheduler().random().one_in(8) ? (scheduler().random().one_in(2) ? EPERM : ENOSYS) : 0;
  if (error != 0) ++disk().faults[static_cast<std::size_t>(Fault::refused)];
  return error;
}

// A transfer moves its bytes in two parts, and others run in between. `nowait`: it only reads what needs no waiting.
ssize_t transfer(Disk::Open open, bool is_write, std::span<const iovec> memory, off_t offset, bool nowait) {
  scheduler().point(Call::file, static_cast<std::uint64_t>(offset));
  if (offset < 0) return errno = EINVAL, -1;
  const auto at = static_cast<std::uint64_t>(offset);
  if (nowait && scheduler().random().one_in(2)) return errno = EAGAIN, -1;
  Fate fate = open.file->decide(is_write, open.is_direct, memory, at);
  // A call that may wait is never put off.
  if (fate.error == EAGAIN && !nowait) fate.error = EINTR;
  const std::size_t half = fate.bytes / 2 / open.file->sector() * open.file->sector();
  const Moving moving(open.file, is_write, memory, at);
  if (is_write && !open.is_direct) Moving::require_no_neighbour(*open.file, at, at + fate.bytes);
  if (!nowait) sleep_for(fate.latency / 2);
  std::size_t moved = moving.move(0, half);
  if (moved == half) {
    if (!nowait) sleep_for(fate.latency / 2);
    moved += moving.move(half, fate.bytes);
  }
  if (fate.error != 0) return errno = fate.error, -1;
  return static_cast<ssize_t>(moved);
}

// `is_durable`: not only written back into the drive's own memory. What is written meanwhile is not flushed.
int flush(const Disk::Open& found, bool is_durable) {
  const Disk::Open open = found;  // The descriptor may be closed meanwhile.
  const std::uint64_t writes = open.file->writes();
  sleep_for(scheduler().random().between(10'000, 1'000'000));
  const int error = open.file->flush(writes, is_durable);
  return error == 0 ? 0 : (errno = error, -1);
}

int flush_folder(unsigned folder) {
  if (!drive().kind().can_flush_folders) return errno = EINVAL, -1;
  sleep_for(scheduler().random().between(10'000, 1'000'000));
  const unsigned one_in = disk().weather[static_cast<std::size_t>(Fault::broken)];
  if (one_in != 0 && scheduler().random().one_in(one_in)) {
    ++disk().faults[static_cast<std::size_t>(Fault::broken)];
    return errno = EIO, -1;
  }
  if (disk().fails_flush()) return errno = EIO, -1;
  return drive().flush_folder(folder), 0;
}

// The descriptor that a name of /proc means, or -1.
int descriptor_of(const char* name) {
  int fd = -1;
  return std::sscanf(name, "/proc/self/fd/%d", &fd) == 1 ? fd : -1;
}

bool answer(long number, const long* arguments, long& result) {
  int told = -1;
  if (number == SYS_openat2 && open_of_machine(reinterpret_cast<const char*>(arguments[1]), told))
    return result = told, true;
  const Disk::Open* const open = number == kCachestat ? disk().find(static_cast<int>(arguments[0])) : nullptr;
  if (open == nullptr) return false;
  if (const int error = forbidden(); error != 0) return errno = error, result = -1, true;
  struct Range {
    std::uint64_t offset, length;
  };
  const auto* const range = reinterpret_cast<const Range*>(arguments[1]);
  auto* const counts = reinterpret_cast<std::uint64_t*>(arguments[2]);
  const std::uint64_t pages = (range->offset % 4096 + range->length + 4095) / 4096;
  counts[0] = scheduler().random().one_in(2) ? pages : scheduler().random().below(pages + 1);
  if (open->file->is_scratch()) counts[0] = 0;
  result = 0;
  return true;
}

const bool answers = (answer_call = answer, true);

// By the kernel, without O_DIRECT, which its files in memory may not know.
template <typename Real, typename... More>
int open_on_drive(Real really, const char* name, int flags, mode_t mode, More... folder) {
  scheduler().point(Call::file);
  if ((flags & O_TMPFILE) == O_TMPFILE && !drive().kind().has_nameless) return errno = EOPNOTSUPP, -1;
  // Somebody has a lease on it.
  if ((flags & O_NONBLOCK) != 0 && drive().is_asked_not_to_wait(name)) return errno = EWOULDBLOCK, -1;
  const int fd = really(folder..., name, flags & ~O_DIRECT, mode);
  if (fd < 0) return fd;
  if (const std::shared_ptr<File> file = drive().find(fd); file != nullptr)
    disk().keep(fd, {file, (flags & O_DIRECT) != 0});
  else if ((flags & O_DIRECT) != 0) return close(fd), really(folder..., name, flags, mode);
  if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) (drive().note_names(folder, {name}), ...);
  else if ((flags & O_CREAT) != 0) drive().note_made(name);
  return fd;
}

template <typename Real, typename... More>
int open_by(Real really, const char* name, int flags, mode_t mode, More... folder) {
  if (int node = -1; open_device != nullptr && open_device(name, node)) return node;
  if (int told = -1; open_of_machine(name, told)) return told;
  const Disk::Open* const known = disk().find(descriptor_of(name));
  if (known == nullptr && drive().is_made()) return open_on_drive(really, name, flags, mode, folder...);
  if (known == nullptr) return really(folder..., name, flags, mode);
  const Disk::Open kept = *known;
  scheduler().point(Call::file);
  if ((flags & O_PATH) == 0 && !pass_leases(*kept.file, (flags & O_NONBLOCK) == 0)) return errno = EWOULDBLOCK, -1;
  const int fd = really(folder..., name, flags & ~O_DIRECT, mode);
  disk().keep(fd, {kept.file, (flags & O_DIRECT) != 0});
  return fd;
}

}  // namespace

extern "C" {

int open(const char* name, int flags, ...) {
  static const auto really = REAL(open);
  va_list list;
  va_start(list, flags);
  const auto mode = static_cast<mode_t>(va_arg(list, int));
  va_end(list);
  return open_by(really, name, flags, mode);
}
int openat(int folder, const char* name, int flags, ...) {
  static const auto really = REAL(openat);
  va_list list;
  va_start(list, flags);
  const auto mode = static_cast<mode_t>(va_arg(list, int));
  va_end(list);
  return open_by(really, name, flags, mode, folder);
}

int close(int fd) {
  static const auto really = REAL(close);
  if (close_device != nullptr && close_device(fd)) return 0;
  disk().drop(fd);
  return really(fd);
}

int fcntl(int fd, int command, ...) {
  static const auto really = REAL(fcntl);
  va_list list;
  va_start(list, command);
  const long argument = va_arg(list, long);
  va_end(list);
  const Disk::Open* const open = disk().find(fd);
  if (open != nullptr && command == F_GETLEASE) return lease_of(fd);
  if (open != nullptr && command == F_SETLEASE) {
    const int error = set_lease(fd, static_cast<int>(argument));
    return error == 0 ? 0 : (errno = error, -1);
  }
  const int result = really(fd, command, argument);
  if (open == nullptr || result < 0) return result;
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) disk().keep(result, Disk::Open(*open));
  if (command == F_GETFL && open->is_direct) return result | O_DIRECT;
  return result;
}

int fstatfs(int fd, struct statfs* answered) noexcept {
  static const auto really = REAL(fstatfs);
  const int result = really(fd, answered);
  const Disk::Open* const open = disk().find(fd);
  if (open != nullptr && result == 0)
    answered->f_type = open->file->file_system(), answered->f_bsize = disk().block_size;
  return result;
}

int fstat(int fd, struct stat* answered) noexcept {
  const Disk::Open* const open = disk().find(fd);
  // The C library before 2.33 has it by no name.
  if (open == nullptr || open->file->is_of_a_drive()) return static_cast<int>(::syscall(SYS_fstat, fd, answered));
  return open->file->tell(*answered), 0;
}
int futimens(int fd, const timespec* times) noexcept {
  static const auto really = REAL(futimens);
  const Disk::Open* const open = disk().find(fd);
  return open == nullptr ? really(fd, times) : (open->file->note_time(), 0);
}

// What the kernel alone can do.
void* mmap(void* place, std::size_t size, int access, int flags, int fd, off_t offset) noexcept {
  static const auto really = REAL(mmap);
  if (void* const mapped = map_device == nullptr ? nullptr : map_device(place, fd, size); mapped != nullptr)
    return mapped;
  if (const Disk::Open* const open = disk().find(fd); open != nullptr) open->file->give_to_kernel();
  return really(place, size, access, flags, fd, offset);
}
off_t lseek(int fd, off_t offset, int whence) noexcept {
  static const auto really = REAL(lseek);
  const Disk::Open* const open = whence == SEEK_SET || whence == SEEK_CUR ? nullptr : disk().find(fd);
  if (open != nullptr && open->file->is_raw_drive()) {
    if (whence != SEEK_END) return errno = EINVAL, -1;
    return really(fd, static_cast<off_t>(open->file->size()) + offset, SEEK_SET);
  }
  if (open != nullptr) open->file->give_to_kernel();
  return really(fd, offset, whence);
}

int ioctl(int fd, unsigned long call, ...) noexcept {
  static const auto really = REAL(ioctl);
  va_list list;
  va_start(list, call);
  void* const argument = va_arg(list, void*);
  va_end(list);
  if (int result = 0; control_device != nullptr && control_device(fd, call, argument, result)) return result;
  const Disk::Open* const open = disk().find(fd);
  if (open == nullptr || !open->file->is_raw_drive()) return really(fd, call, argument);
  if (call == BLKGETSIZE64) return *static_cast<std::uint64_t*>(argument) = open->file->size(), 0;
  if (call == BLKSSZGET) return *static_cast<int*>(argument) = static_cast<int>(open->file->sector()), 0;
  return errno = ENOTTY, -1;
}

int statx(int fd, const char* name, int flags, unsigned mask, struct statx* answered) noexcept {
  static const auto really = REAL(statx);
  const int result = really(fd, name, flags, mask, answered);
  const Disk::Open* const open = disk().find(fd);
  if (open == nullptr || result != 0 || name[0] != '\0') return result;
  answered->stx_mask |= kStatxDirectAlign;
  answered->stx_dio_mem_align = answered->stx_dio_offset_align = open->file->sector();
  open->file->look_at_size();
  answered->stx_size = open->file->size();
  return 0;
}

ssize_t pread(int fd, void* memory, std::size_t size, off_t offset) {
  static const auto really = REAL(pread);
  const Disk::Open* const open = disk().find(fd);
  const iovec one{memory, size};
  return open == nullptr ? really(fd, memory, size, offset) : transfer(*open, false, {&one, 1}, offset, false);
}
// By these names optimised code asks for the same.
ssize_t __pread_chk(int fd, void* memory, std::size_t size, off_t offset, std::size_t) {
  return pread(fd, memory, size, offset);
}
int __open_2(const char* name, int flags) { return open(name, flags); }
int __openat_2(int folder, const char* name, int flags) { return openat(folder, name, flags); }

ssize_t pwrite(int fd, const void* memory, std::size_t size, off_t offset) {
  static const auto really = REAL(pwrite);
  const Disk::Open* const open = disk().find(fd);
  const iovec one{const_cast<void*>(memory), size};
  return open == nullptr ? really(fd, memory, size, offset) : transfer(*open, true, {&one, 1}, offset, false);
}
ssize_t preadv2(int fd, const iovec* memory, int count, off_t offset, int flags) {
  static const auto really = REAL(preadv2);
  const Disk::Open* const open = disk().find(fd);
  if (open == nullptr) return really(fd, memory, count, offset, flags);
  if (const int error = forbidden(); error != 0) return errno = error, -1;
  return transfer(*open, false, {memory, static_cast<std::size_t>(count)}, offset, (flags & RWF_NOWAIT) != 0);
}
ssize_t pwritev2(int fd, const iovec* memory, int count, off_t offset, int flags) {
  static const auto really = REAL(pwritev2);
  const Disk::Open* const open = disk().find(fd);
  if (open == nullptr) return really(fd, memory, count, offset, flags);
  if (const int error = forbidden(); error != 0) return errno = error, -1;
  return transfer(*open, true, {memory, static_cast<std::size_t>(count)}, offset, false);
}

int fsync(int fd) {
  static const auto really = REAL(fsync);
  const Disk::Open* const open = disk().find(fd);
  if (const std::optional<unsigned> folder = open == nullptr ? drive().find_folder(fd) : std::nullopt)
    return flush_folder(*folder);
  return open == nullptr ? really(fd) : flush(*open, true);
}
int fdatasync(int fd) {
  static const auto really = REAL(fdatasync);
  const Disk::Open* const open = disk().find(fd);
  return open == nullptr ? really(fd) : flush(*open, true);
}
int sync_file_range(int fd, off_t offset, off_t size, unsigned flags) {
  static const auto really = REAL(sync_file_range);
  const Disk::Open* const open = disk().find(fd);
  if (open == nullptr) return really(fd, offset, size, flags);
  if (const int error = forbidden(); error != 0) return errno = error, -1;
  return (flags & SYNC_FILE_RANGE_WAIT_AFTER) != 0 ? flush(*open, false) : 0;
}

// The library cuts a file where it ends anyway, for the blocks behind, while nobody can change the size.
int ftruncate(int fd, off_t size) noexcept {
  static const auto really = REAL(ftruncate);
  const Disk::Open* const open = disk().find(fd);
  if (open == nullptr) return really(fd, size);
  open->file->look_at_size();
  if (!open->file->is_of_a_drive()) scheduler().point(Call::file);
  if (static_cast<std::uint64_t>(size) == open->file->size()) {
    if (!open->file->is_of_a_drive() && !has_lease(*open)) scheduler().fail("a file is cut without a lease");
    return open->file->cut_at_end(), 0;
  }
  if (!open->file->is_of_a_drive()) scheduler().fail("the library changes a file's size");
  return open->file->resize(static_cast<std::uint64_t>(size)), 0;
}
int fallocate(int fd, int mode, off_t offset, off_t size) {
  static const auto really = REAL(fallocate);
  const Disk::Open* const open = disk().find(fd);
  if (open == nullptr) return really(fd, mode, offset, size);
  const bool may_grow = (mode & FALLOC_FL_KEEP_SIZE) == 0;
  if (may_grow && static_cast<std::uint64_t>(offset + size) > open->file->size())
    scheduler().fail("the library changes a file's size");
  scheduler().point(Call::file);
  if (disk().refuses(4)) return errno = ENOSPC, -1;
  const auto first = static_cast<std::uint64_t>(offset);
  const int error = open->file->allocate(mode, first, first + static_cast<std::uint64_t>(size));
  return error == 0 ? 0 : (errno = error, -1);
}

// ---- Names ----------------------------------------------------------------------------------------------------------

int linkat(int from_folder, const char* from, int folder, const char* name, int flags) noexcept {
  static const auto really = REAL(linkat);
  if (drive().is_made()) scheduler().point(Call::file);
  if (!drive().kind().has_links) return errno = EPERM, -1;
  const int result = really(from_folder, from, folder, name, flags);
  if (result == 0) drive().note_names(folder, {name});
  return result;
}
int renameat(int from_folder, const char* from, int folder, const char* name) noexcept {
  return renameat2(from_folder, from, folder, name, 0);
}
int renameat2(int from_folder, const char* from, int folder, const char* name, unsigned flags) noexcept {
  static const auto really = REAL(renameat2);
  if (drive().is_made()) scheduler().point(Call::file);
  if (flags != 0 && !drive().kind().has_kept_renames) return errno = EINVAL, -1;
  const int result = really(from_folder, from, folder, name, flags);
  if (result == 0) drive().note_names(folder, {from, name});
  return result;
}
int unlinkat(int folder, const char* name, int flags) noexcept {
  static const auto really = REAL(unlinkat);
  if (drive().is_made()) scheduler().point(Call::file);
  const int result = really(folder, name, flags);
  if (result == 0) drive().note_names(folder, {name});
  return result;
}
int unlink(const char* name) noexcept {
  static const auto really = REAL(open);
  const std::string_view whole = name;
  const std::size_t slash = whole.rfind('/');
  const int folder = drive().is_made() && slash != whole.npos
                         ? really(std::string(whole.substr(0, slash)).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)
                         : -1;
  if (folder < 0) return unlinkat(AT_FDCWD, name, 0);
  const int result = unlinkat(folder, name + slash + 1, 0);
  const int error = errno;
  close(folder);
  return errno = error, result;
}

}  // extern "C"
