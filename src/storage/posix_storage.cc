// SPDX-License-Identifier: Apache-2.0

#include "storage/posix_storage.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <climits>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <string>

#include "base/align.h"
#include "base/missing_call.h"
#include "base/page_size.h"
#include "storage/cachestat.h"

namespace penstock::core {
namespace {

constexpr std::uint32_t kStatxDirectAlign = 0x2000;  // STATX_DIOALIGN, Linux 6.1.
constexpr std::uint32_t kMemoryAlignMax = 4096;      // The alignment of the bounce buffers.
constexpr std::uint32_t kOffsetAlignMax = 64u << 10;
constexpr std::uint32_t kAssumedAlign = 4096;

constexpr const char* kScratchStep = "make a scratch file beside the file";

// True for memory file systems, which accept O_DIRECT since 6.6 but still copy, and for /proc and /sys, whose bytes are
// generated on reading.
bool lives_in_memory(std::uint64_t magic) {
  return magic == TMPFS_MAGIC || magic == RAMFS_MAGIC || magic == HUGETLBFS_MAGIC || magic == PROC_SUPER_MAGIC ||
         magic == SYSFS_MAGIC;
}

void set_alignment(FileFacts& facts, std::uint32_t memory, std::uint32_t offset, AlignmentSource source) {
  if (!is_power_of_two(memory) || !is_power_of_two(offset)) return;
  if (memory > kMemoryAlignMax || offset > kOffsetAlignMax) return;
  facts.direct_memory_align = memory;
  facts.direct_offset_align = offset;
  facts.alignment_source = source;
}

void find_alignment(int fd, FileFacts& facts) {
  if (lives_in_memory(facts.file_system_magic)) return;
  struct statx answer {};
  if (::statx(fd, "", AT_EMPTY_PATH, kStatxDirectAlign, &answer) == 0 && (answer.stx_mask & kStatxDirectAlign) != 0) {
    // Zero means that direct I/O is not possible here, or would be a buffered copy (ext4 with data=journal).
    set_alignment(facts, answer.stx_dio_mem_align, answer.stx_dio_offset_align, AlignmentSource::statx);
    return;
  }
  if (facts.type == FileType::block_device) {
    int block = 0;
    if (::ioctl(fd, BLKSSZGET, &block) == 0 && block > 0) {
      const auto align = static_cast<std::uint32_t>(block);
      set_alignment(facts, std::min(align, kMemoryAlignMax), align, AlignmentSource::block_device);
      return;
    }
  }
  set_alignment(facts, kAssumedAlign, kAssumedAlign, AlignmentSource::assumed);
}

template <typename Call>
ssize_t without_interrupts(Call call) {
  ssize_t result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

std::uint64_t pages_of(std::uint64_t offset, std::uint64_t size, std::uint64_t page) {
  return (align_up(offset + size, page) - align_down(offset, page)) / page;
}

// A few evicted pages are cheaper to read through the cache than all bytes are around it.
bool nearly_all(std::uint64_t cached, std::uint64_t pages) { return cached >= pages - pages / 8; }

bool is_at_end(int fd, off_t offset) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && offset >= status.st_size;
}

Result<std::string> directory_of(int fd) {
  constexpr const char* kStep = "find the file's folder";
  char link[32], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, path, sizeof path);
  if (length < 0) return os_failure(errno, kStep);
  const std::string name(path, static_cast<std::size_t>(length));
  const std::size_t end = name.rfind('/');
  if (end == std::string::npos) return os_failure(ENOENT, kStep);
  return end == 0 ? std::string("/") : name.substr(0, end);
}

Result<Scratch> make_nameless_scratch(const UniqueFd& folder) {
  UniqueFd file(::openat(folder.get(), ".", O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.valid()) return os_failure(errno, kScratchStep);
  return Scratch(std::move(file));
}

// Makes a file whose name cannot be guessed, so that nobody has taken it; O_EXCL follows no link. NVIDIA's library
// would refuse a descriptor with O_NOFOLLOW or O_TMPFILE among its flags.
Result<Scratch> make_named_scratch(UniqueFd folder) {
  std::uint64_t random[2];
  if (::getrandom(random, sizeof random, 0) != sizeof random) return os_failure(errno, kScratchStep);
  char name[64];
  std::snprintf(name, sizeof name, ".penstock-scratch-%016" PRIx64 "%016" PRIx64, random[0], random[1]);
  constexpr int kFlags = O_CREAT | O_EXCL | O_RDWR | O_DIRECT | O_CLOEXEC;
  UniqueFd file(::openat(folder.get(), name, kFlags, S_IRUSR | S_IWUSR));
  if (!file.valid()) {
    const int error = errno;
    // A file system may create the file and then refuse O_DIRECT.
    if (error != EEXIST) ::unlinkat(folder.get(), name, 0);
    return os_failure(error, kScratchStep);
  }
  return Scratch(std::move(file), std::move(folder), name);
}

bool is_overlay(int fd) {
  struct statfs file_system {};
  return ::fstatfs(fd, &file_system) == 0 && file_system.f_type == OVERLAYFS_SUPER_MAGIC;
}

// For hugetlbfs, whose pages are the file: true if all of its pages are allocated.
bool has_all_its_pages(int fd) {
  struct stat status {};
  constexpr off_t kBlock = 512;
  return ::fstat(fd, &status) == 0 && status.st_blocks * kBlock >= status.st_size;
}

// Uses a mapping, which finds pages even if they belong to another file system's inode (overlayfs). For a file that
// this user neither owns nor may write, the kernel reports every page as resident.
bool is_resident_by_mincore(int fd, std::uint64_t offset, std::uint64_t size, std::uint64_t page) {
  constexpr std::size_t kPagesMax = 4096;
  unsigned char present[kPagesMax];
  const std::uint64_t first = align_down(offset, page);
  const std::uint64_t pages = pages_of(offset, size, page);
  std::uint64_t cached = 0;
  for (std::uint64_t done = 0; done < pages; done += kPagesMax) {
    const std::size_t count = std::min<std::uint64_t>(kPagesMax, pages - done);
    void* map = ::mmap(nullptr, count * page, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(first + done * page));
    if (map == MAP_FAILED) return false;
    if (::mincore(map, count * page, present) == 0) {
      cached += static_cast<std::uint64_t>(std::count_if(present, present + count, [](auto bits) { return bits & 1; }));
    }
    ::munmap(map, count * page);
  }
  return nearly_all(cached, pages);
}

}  // namespace

PosixStorage::PosixStorage(bool allow_io_uring) : io_uring_error_(allow_io_uring ? 0 : ECANCELED) {}

Result<FileFacts> PosixStorage::facts(int fd) {
  FileFacts facts;
  facts.open_flags = ::fcntl(fd, F_GETFL);
  if (facts.open_flags < 0) return os_failure(errno, "look at the file descriptor");
  struct stat status {};
  if (::fstat(fd, &status) != 0) return os_failure(errno, "look at the file");
  if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) return failure(Code::unsupported_file, "register the file");
  if ((facts.open_flags & (O_APPEND | O_PATH)) != 0) return failure(Code::unsupported_flags, "register the file");

  facts.type = S_ISBLK(status.st_mode) ? FileType::block_device : FileType::regular;
  facts.inode = status.st_ino;
  facts.file_system_device = status.st_dev;
  facts.block_device = S_ISBLK(status.st_mode) ? status.st_rdev : major(status.st_dev) != 0 ? status.st_dev : 0;
  struct statfs file_system {};
  if (::fstatfs(fd, &file_system) != 0) return os_failure(errno, "look at the file system");
  facts.file_system_magic =
      S_ISBLK(status.st_mode) ? 0x62646576 : static_cast<std::uint64_t>(static_cast<std::uint32_t>(file_system.f_type));
  facts.block_size = static_cast<std::uint64_t>(file_system.f_bsize);
  const Result<std::uint64_t> bytes = size(fd);
  if (!bytes.ok()) return bytes.status();
  facts.size = *bytes;
  find_alignment(fd, facts);
  return facts;
}

Result<UniqueFd> PosixStorage::duplicate(int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return os_failure(errno, "duplicate the file descriptor");
  return copy;
}

Result<UniqueFd> PosixStorage::reopen(int fd, int open_flags, bool o_direct) {
  char name[32];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  const int kept = open_flags & (O_ACCMODE | O_SYNC | O_DSYNC);
  UniqueFd opened(::open(name, kept | O_CLOEXEC | O_NOCTTY | (o_direct ? O_DIRECT : 0)));
  if (!opened.valid()) {
    return os_failure(errno, o_direct ? "open the file a second time, with O_DIRECT"
                                      : "open the file a second time, without O_DIRECT");
  }
  return opened;
}

// If its layers are on several file systems, overlayfs changes a file's device and inode number on the first write,
// because the file moves to the upper layer.
bool PosixStorage::is_descriptor_of(int fd, const FileFacts& facts, std::uint64_t* reached) {
  struct stat status;  // Not zeroed: this runs for every request.
  if (::fstat(fd, &status) != 0) return false;
  const bool is_regular = S_ISREG(status.st_mode);
  const bool is_its = status.st_dev == facts.file_system_device
                          ? status.st_ino == facts.inode
                          : facts.file_system_magic == OVERLAYFS_SUPER_MAGIC && is_regular && is_overlay(fd);
  if (is_its && is_regular && reached != nullptr) *reached = static_cast<std::uint64_t>(status.st_size);
  return is_its;
}

Result<std::uint64_t> PosixStorage::size(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return os_failure(errno, "ask for the file's size");
  if (!S_ISBLK(status.st_mode)) return static_cast<std::uint64_t>(status.st_size);
  std::uint64_t bytes = 0;
  if (::ioctl(fd, BLKGETSIZE64, &bytes) != 0) return os_failure(errno, "ask for the block device's size");
  return bytes;
}

Result<FileStamp> PosixStorage::stamp(int fd) {
  const auto nanoseconds_of = [](const timespec& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  struct stat status;  // Not zeroed: this runs for every request.
  if (::fstat(fd, &status) != 0) return os_failure(errno, "look at the file");
  return FileStamp{static_cast<std::uint64_t>(status.st_size), nanoseconds_of(status.st_ctim), nanoseconds_of(now)};
}

Result<std::size_t> PosixStorage::read(int fd, void* memory, std::size_t size, std::uint64_t offset) {
  const iovec vector{memory, size};
  ssize_t got = without_interrupts([&] { return ::preadv2(fd, &vector, 1, static_cast<off_t>(offset), 0); });
  if (got < 0 && is_call_missing(errno))
    got = without_interrupts([&] { return ::pread(fd, memory, size, static_cast<off_t>(offset)); });
  if (got < 0) return os_failure(errno, "read from the file");
  return static_cast<std::size_t>(got);
}

Result<std::size_t> PosixStorage::read_if_cached(int fd, void* memory, std::size_t size, std::uint64_t offset) {
  const iovec vector{memory, size};
  const ssize_t got =
      without_interrupts([&] { return ::preadv2(fd, &vector, 1, static_cast<off_t>(offset), RWF_NOWAIT); });
  if (got >= 0) return static_cast<std::size_t>(got);
  // File systems without this (overlayfs, NFS) return EOPNOTSUPP.
  const bool is_told = errno != EOPNOTSUPP && !is_call_missing(errno);
  return os_failure(is_told ? errno : EAGAIN, "read from the page cache");
}

Result<std::size_t> PosixStorage::write(int fd, const void* memory, std::size_t size, std::uint64_t offset) {
  const iovec vector{const_cast<void*>(memory), size};
  ssize_t put = without_interrupts([&] { return ::pwritev2(fd, &vector, 1, static_cast<off_t>(offset), 0); });
  if (put < 0 && is_call_missing(errno))
    put = without_interrupts([&] { return ::pwrite(fd, memory, size, static_cast<off_t>(offset)); });
  if (put < 0) return os_failure(errno, "write to the file");
  return static_cast<std::size_t>(put);
}

// overlayfs keeps no pages of its own, and only passes on calls that flush a whole file.
Status PosixStorage::flush(int fd, std::uint64_t offset, std::uint64_t size) {
  constexpr unsigned kWriteAndWait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  const auto flushed = without_interrupts([&]() -> ssize_t {
    if (is_overlay(fd)) return ::fdatasync(fd);
    const int result = ::sync_file_range(fd, static_cast<off_t>(offset), static_cast<off_t>(size), kWriteAndWait);
    return result != 0 && is_call_missing(errno) ? ::fdatasync(fd) : result;
  });
  return flushed == 0 ? success() : os_failure(errno, "flush what was written through the page cache");
}

void PosixStorage::start_reading(int fd, std::uint64_t offset, std::uint64_t size) {
  (void)::posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_WILLNEED);
}

void PosixStorage::start_flush(int fd) { (void)::sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); }

Status PosixStorage::sync(int fd) { return ::fsync(fd) == 0 ? success() : os_failure(errno, "flush the file"); }

bool PosixStorage::is_same_open_file(int first, int second) {
  const auto self = ::getpid();
  return ::syscall(SYS_kcmp, self, self, KCMP_FILE, first, second) <= 0;  // Negative: the kernel does not say.
}

bool PosixStorage::is_resident(int fd, std::uint64_t offset, std::uint64_t size) {
  if (size == 0) return true;
  const std::uint64_t page = page_size();
  if (!no_cachestat_.load(std::memory_order_relaxed)) {
    if (const std::optional<std::uint64_t> cached = count_cached_pages(fd, offset, size)) {
      if (*cached == 0 && is_overlay(fd)) return is_resident_by_mincore(fd, offset, size, page);
      return nearly_all(*cached, pages_of(offset, size, page));
    }
    if (errno == EOPNOTSUPP) return has_all_its_pages(fd);
    if (is_call_missing(errno)) no_cachestat_.store(true, std::memory_order_relaxed);
  }
  return is_resident_by_mincore(fd, offset, size, page);
}

void PosixStorage::mark_changed(int fd) {
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, {.tv_sec = 0, .tv_nsec = UTIME_NOW}};
  // A user who may only write to another user's file can set both times or none.
  if (::futimens(fd, times) != 0 && errno == EPERM) (void)::futimens(fd, nullptr);
}

bool PosixStorage::is_data(int fd, std::uint64_t offset, std::uint64_t size) {
  const off_t hole = ::lseek(fd, static_cast<off_t>(offset), SEEK_HOLE);
  // ENXIO: past the end. With any other error nothing is known, and the file system fills no holes.
  if (hole < 0) return errno != ENXIO;
  return static_cast<std::uint64_t>(hole) >= offset + size || is_at_end(fd, hole);
}

// Only on file systems where it was measured to help. A buffered write costs ext4, besides copying, 0.18 CPU seconds a
// GB if it reserves block by block and 0.10 if the blocks are there (Linux 6.18), all of it with the inode's lock held.
// Memory file systems would first fill the pages with zeros, and btrfs would turn compression off.
bool PosixStorage::preallocate(int fd, std::uint64_t offset, std::uint64_t size) {
  struct stat status {};
  struct statfs file_system {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || ::fstatfs(fd, &file_system) != 0) return false;
  if (file_system.f_type != EXT4_SUPER_MAGIC && file_system.f_type != XFS_SUPER_MAGIC) return false;
  const std::uint64_t first = std::max(offset, static_cast<std::uint64_t>(status.st_size));
  const std::uint64_t end = offset + size;
  if (first >= end) return false;
  (void)::fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first), static_cast<off_t>(end - first));
  // On a full disk only a part was allocated. Blocks that the program had allocated itself were there before.
  const blkcnt_t blocks_before = status.st_blocks;
  return ::fstat(fd, &status) == 0 && status.st_blocks > blocks_before;
}

// ext4 releases such blocks when the file is cut, and in no other way. A lease, which needs that no other open file of
// it exists, keeps others from opening the file meanwhile. If one tries, the kernel sends a signal: SIGURG, which does
// no harm, instead of SIGIO, which would end the program.
bool PosixStorage::release_blocks_behind_end(int fd) {
  // The program itself uses a lease or an owner.
  if (::fcntl(fd, F_GETLEASE) != F_UNLCK || ::fcntl(fd, F_GETOWN) != 0) return false;
  const int signal_before = ::fcntl(fd, F_GETSIG);
  if (::fcntl(fd, F_SETSIG, SIGURG) != 0) return false;
  const bool alone = ::fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
  struct stat status {};
  const bool released = alone && ::fstat(fd, &status) == 0 && ::ftruncate(fd, status.st_size) == 0;
  if (alone) (void)::fcntl(fd, F_SETLEASE, F_UNLCK);
  (void)::fcntl(fd, F_SETSIG, signal_before);
  (void)::fcntl(fd, F_SETOWN, 0);
  return released;
}

Result<Scratch> PosixStorage::open_scratch(int fd, ScratchKind kind) {
  const Result<std::string> path = directory_of(fd);
  if (!path.ok()) return path.status();
  UniqueFd folder(::open(path->c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return os_failure(errno, kScratchStep);
  Result<Scratch> scratch =
      kind == ScratchKind::named ? make_named_scratch(std::move(folder)) : make_nameless_scratch(folder);
  if (!scratch.ok()) return scratch;
  struct stat ours {
  }, theirs{};
  if (::fstat(scratch->get(), &ours) != 0 || ::fstat(fd, &theirs) != 0) return os_failure(errno, kScratchStep);
  if (ours.st_dev != theirs.st_dev) return os_failure(EXDEV, kScratchStep);
  return scratch;
}

}  // namespace penstock::core
