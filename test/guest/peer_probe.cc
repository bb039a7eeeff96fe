// SPDX-License-Identifier: Apache-2.0

// peer_probe: asks the kernel of an emulated machine what it does with device memory as the buffer of file I/O, and
// prints what came of it, one JSON object a line. It knows nothing of Penstock: what it measures is the ground that the
// p2pdma path stands on.
//
//   peer_probe run CASE PEER TARGET MARKS FIRST   each operation on TARGET (file or block device) with memory of PEER
//   peer_probe unbind CASE PEER TARGET            what is left of a mapping when its driver lets go of the device
//   peer_probe fill TARGET BYTES                  writes the pattern, from host memory
//   peer_probe cached FILE                        prints how many of its pages are in the page cache
//   peer_probe linear NAME DRIVE                  makes the device mapper's linear device /dev/dm-0 of all of DRIVE
//   peer_probe mark MARKS NUMBER                  reads block kFirstMark + NUMBER of the drive MARKS
//
// PEER is a PCI device's directory below /sys. A mark is a read that the emulator's log shows: what lies between two
// marks in that log belongs to one operation. The first operation of `run` gets the number FIRST.
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/dm-ioctl.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr size_t kPeerBytes = 2 * kMiB;
constexpr size_t kBlock = 512;
// Beyond what any case touches; the drive that carries the marks is sparse and larger. witness.py has it too.
constexpr uint64_t kFirstMark = uint64_t{1} << 26;

[[noreturn]] void fail(const std::string& step) {
  std::fprintf(stderr, "peer_probe: %s: %s\n", step.c_str(), std::strerror(errno));
  std::exit(1);
}

// The word that belongs at an offset of a file; pattern.py has the same. Salt 0 is what the images are made of.
uint64_t pattern_word(uint64_t offset, uint64_t salt) {
  return (offset + 1) * 0x9E3779B97F4A7C15u ^ salt * 0xD1B54A32D192ED03u;
}

void fill_pattern(void* memory, size_t bytes, uint64_t offset, uint64_t salt) {
  auto* words = static_cast<volatile uint64_t*>(memory);  // Device memory: word by word, no clever stores.
  for (size_t i = 0; i < bytes / 8; ++i) words[i] = pattern_word(offset + i * 8, salt);
}

bool has_pattern(const void* memory, size_t bytes, uint64_t offset, uint64_t salt) {
  auto* words = static_cast<const volatile uint64_t*>(memory);
  for (size_t i = 0; i < bytes / 8; ++i) {
    if (words[i] != pattern_word(offset + i * 8, salt)) return false;
  }
  return true;
}

std::string name_of(long result) {
  if (result >= 0) return "";
  const char* name = strerrorname_np(static_cast<int>(-result));
  return name != nullptr ? name : std::to_string(-result);
}

char* host_memory(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("mmap of host memory");
  return static_cast<char*>(memory);
}

char* peer_memory(const std::string& peer) {
  const std::string allocate = peer + "/p2pmem/allocate";
  const int fd = open(allocate.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) fail("open " + allocate);
  void* memory = mmap(nullptr, kPeerBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) fail("mmap " + allocate);
  close(fd);
  return static_cast<char*>(memory);
}

int open_or_fail(const char* path, int flags) {
  const int fd = open(path, flags | O_CLOEXEC, 0644);
  if (fd < 0) fail(std::string("open ") + path);
  return fd;
}

int open_direct(const char* path) {
  const int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
  return fd >= 0 || errno != EINVAL ? fd : open(path, O_RDWR | O_CLOEXEC);
}

void mark(int marks, uint64_t number) {
  static char* block = host_memory(4 * kKiB);
  const auto at = static_cast<off_t>((kFirstMark + number) * kBlock);
  if (pread(marks, block, kBlock, at) != static_cast<ssize_t>(kBlock)) fail("mark");
}

// Pages of the file in the page cache; -1 where the kernel has no cachestat.
long cached_pages(int fd) {
  struct {
    uint64_t offset = 0, length = 0;
  } range;
  struct {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } counts;
  constexpr long kCachestat = 451;
  return syscall(kCachestat, fd, &range, &counts, 0) == 0 ? static_cast<long>(counts.cached) : -1;
}

// Calls of the kernel's function that maps device memory for DMA, counted by a probe of that name; -1 without it.
long kernel_mappings() {
  std::ifstream profile("/sys/kernel/tracing/kprobe_profile");
  for (std::string name; profile >> name;) {
    long hits = 0;
    profile >> hits;
    if (name == "peer_mapping") return hits;
    profile.ignore(1000, '\n');
  }
  return -1;
}

long ring_io(bool writes, int fd, char* memory, size_t bytes, size_t offset) {
  io_uring ring;
  if (const int error = io_uring_queue_init(4, &ring, 0); error < 0) return error;
  io_uring_sqe* entry = io_uring_get_sqe(&ring);
  const auto size = static_cast<unsigned>(bytes);
  writes ? io_uring_prep_write(entry, fd, memory, size, offset) : io_uring_prep_read(entry, fd, memory, size, offset);
  io_uring_cqe* completion = nullptr;
  long result = io_uring_submit_and_wait(&ring, 1);
  if (result == 1) result = io_uring_wait_cqe(&ring, &completion);
  if (result == 0) result = completion->res;
  io_uring_queue_exit(&ring);
  return result;
}

long ring_register(char* memory, size_t bytes) {
  io_uring ring;
  if (const int error = io_uring_queue_init(4, &ring, 0); error < 0) return error;
  const iovec piece{memory, bytes};
  const long result = io_uring_register_buffers(&ring, &piece, 1);
  io_uring_queue_exit(&ring);
  return result;
}

enum class Way { kCall, kRing, kRegister };

struct Operation {
  const char* name;
  Way way;
  bool writes;
  bool direct;
  size_t offset;
  size_t bytes;
};

// No two touch the same bytes of the target; the first two mebibytes are only read.
constexpr Operation kOperations[] = {
    {"read", Way::kCall, false, true, 64 * kKiB, 64 * kKiB},
    {"read_page", Way::kCall, false, true, 4 * kKiB, 4 * kKiB},
    {"read_large", Way::kCall, false, true, 256 * kKiB, kMiB},
    {"read_ring", Way::kRing, false, true, 128 * kKiB, 64 * kKiB},
    {"write", Way::kCall, true, true, 2048 * kKiB, 64 * kKiB},
    {"write_large", Way::kCall, true, true, 2560 * kKiB, kMiB},
    {"write_ring", Way::kRing, true, true, 2304 * kKiB, 64 * kKiB},
    {"read_buffered", Way::kCall, false, false, 192 * kKiB, 64 * kKiB},
    {"register", Way::kRegister, false, true, 0, 64 * kKiB},
};

long perform(const Operation& operation, int fd, char* memory) {
  if (operation.way == Way::kRegister) return ring_register(memory, operation.bytes);
  if (operation.way == Way::kRing) return ring_io(operation.writes, fd, memory, operation.bytes, operation.offset);
  const iovec piece{memory, operation.bytes};
  const auto at = static_cast<off_t>(operation.offset);
  const ssize_t done = operation.writes ? pwritev(fd, &piece, 1, at) : preadv(fd, &piece, 1, at);
  return done < 0 ? -errno : done;
}

// Whether the bytes arrived: in the peer's memory for a read, in the file for a write.
bool arrived(const Operation& operation, int fd, const char* peer, uint64_t salt) {
  if (!operation.writes) return has_pattern(peer, operation.bytes, operation.offset, 0);
  char* host = host_memory(operation.bytes);
  const ssize_t done = pread(fd, host, operation.bytes, static_cast<off_t>(operation.offset));
  const bool equal =
      done == static_cast<ssize_t>(operation.bytes) && has_pattern(host, operation.bytes, operation.offset, salt);
  munmap(host, operation.bytes);
  return equal;
}

int run(const char* name, const std::string& peer, const char* target, const char* marks_path, uint64_t first) {
  char* memory = peer_memory(peer);
  const int marks = open_or_fail(marks_path, O_RDONLY | O_DIRECT);
  const int buffered = open_or_fail(target, O_RDWR);
  const int direct = open_direct(target);
  if (direct < 0) fail(std::string("open ") + target);
  uint64_t number = first;
  for (const Operation& operation : kOperations) {
    const int fd = operation.direct ? direct : buffered;
    const uint64_t salt = number + 1;
    if (operation.writes) {
      fill_pattern(memory, operation.bytes, operation.offset, salt);
    } else {
      std::memset(memory, 0xA5, operation.bytes);
    }
    fsync(buffered);
    posix_fadvise(buffered, 0, 0, POSIX_FADV_DONTNEED);
    const long cached_before = cached_pages(buffered);
    const long mappings_before = kernel_mappings();
    mark(marks, number);
    const long result = perform(operation, fd, memory);
    mark(marks, number + 1);
    const long mappings = kernel_mappings() - mappings_before;
    const long cached = cached_pages(buffered) - cached_before;
    const bool equal = result == static_cast<long>(operation.bytes) && arrived(operation, direct, memory, salt);
    std::printf(
        "@@ {\"case\": \"%s\", \"op\": \"%s\", \"offset\": %zu, \"size\": %zu, \"writes\": %s, \"salt\": %llu, "
        "\"bytes\": %ld, \"error\": \"%s\", \"equal\": %s, \"mappings\": %ld, \"cached\": %ld, \"mark\": %llu}\n",
        name, operation.name, operation.offset, operation.bytes, operation.writes ? "true" : "false",
        static_cast<unsigned long long>(salt), result < 0 ? 0 : result, name_of(result).c_str(),
        equal ? "true" : "false", mappings, cached, static_cast<unsigned long long>(number));
    std::fflush(stdout);
    ++number;
  }
  return 0;
}

sigjmp_buf g_after_fault;

void on_fault(int signal_number) { siglongjmp(g_after_fault, signal_number); }

int unbind(const char* name, const std::string& peer, const char* target) {
  char* memory = peer_memory(peer);
  const int fd = open_or_fail(target, O_RDWR | O_DIRECT);
  memory[0] = 1;
  char real[PATH_MAX];
  if (realpath(peer.c_str(), real) == nullptr) fail("realpath " + peer);
  const std::string address = std::strrchr(real, '/') + 1;
  const int control = open_or_fail((peer + "/driver/unbind").c_str(), O_WRONLY);
  if (write(control, address.data(), address.size()) < 0) fail("unbind " + address);

  const ssize_t done = pread(fd, memory, 4 * kKiB, 0);
  const std::string error = name_of(done < 0 ? -errno : 0);
  struct sigaction action {};
  action.sa_handler = on_fault;
  sigaction(SIGBUS, &action, nullptr);
  sigaction(SIGSEGV, &action, nullptr);
  const int signal_number = sigsetjmp(g_after_fault, 1);
  if (signal_number == 0) static_cast<volatile char*>(memory)[0] = 2;
  const bool offered = access((peer + "/p2pmem").c_str(), F_OK) == 0;
  std::printf("@@ {\"case\": \"%s\", \"op\": \"read\", \"bytes\": %zd, \"error\": \"%s\"}\n", name, done < 0 ? 0 : done,
              error.c_str());
  std::printf("@@ {\"case\": \"%s\", \"op\": \"touch\", \"error\": \"%s\"}\n", name,
              signal_number == 0 ? "" : sigabbrev_np(signal_number));
  std::printf("@@ {\"case\": \"%s\", \"op\": \"offer\", \"error\": \"%s\"}\n", name, offered ? "" : "gone");
  return 0;
}

int fill(const char* target, size_t bytes) {
  struct stat facts;
  const bool exists = stat(target, &facts) == 0;
  const int fd = open_or_fail(target, O_WRONLY | (exists ? 0 : O_CREAT));
  std::vector<uint64_t> words(bytes / 8);
  fill_pattern(words.data(), bytes, 0, 0);
  if (pwrite(fd, words.data(), bytes, 0) != static_cast<ssize_t>(bytes)) fail(std::string("fill ") + target);
  if (fsync(fd) != 0) fail(std::string("fsync ") + target);
  return 0;
}

// What dmsetup does, without its libraries.
int linear(const char* name, const char* drive) {
  struct {
    dm_ioctl head;
    dm_target_spec target;
    char words[64];
  } call = {};
  const int control = open_or_fail("/dev/mapper/control", O_RDWR);
  const auto say = [&](unsigned long request, unsigned flags, const char* step) {
    call.head.version[0] = DM_VERSION_MAJOR;
    call.head.data_size = sizeof call;
    call.head.data_start = sizeof call.head;
    call.head.flags = flags;
    std::snprintf(call.head.name, sizeof call.head.name, "%s", name);
    if (ioctl(control, request, &call) != 0) fail(step);
  };
  uint64_t bytes = 0;
  if (ioctl(open_or_fail(drive, O_RDONLY), BLKGETSIZE64, &bytes) != 0) fail(std::string("size of ") + drive);
  say(DM_DEV_CREATE, 0, "make a mapped device");
  call = {};
  call.head.target_count = 1;
  call.target.length = bytes / kBlock;
  std::snprintf(call.target.target_type, sizeof call.target.target_type, "linear");
  std::snprintf(call.words, sizeof call.words, "%s 0", drive);
  say(DM_TABLE_LOAD, 0, "load a table");
  call = {};
  say(DM_DEV_SUSPEND, 0, "start a mapped device");
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  if (what == "run" && count == 7)
    return run(words[2], words[3], words[4], words[5], std::strtoull(words[6], nullptr, 10));
  if (what == "unbind" && count == 5) return unbind(words[2], words[3], words[4]);
  if (what == "fill" && count == 4) return fill(words[2], std::strtoull(words[3], nullptr, 10));
  if (what == "mark" && count == 4) {
    mark(open_or_fail(words[2], O_RDONLY | O_DIRECT), std::strtoull(words[3], nullptr, 10));
    return 0;
  }
  if (what == "linear" && count == 4) return linear(words[2], words[3]);
  if (what == "cached" && count == 3) return std::printf("%ld\n", cached_pages(open_or_fail(words[2], O_RDONLY))) < 0;
  std::fprintf(stderr,
               "usage: peer_probe run|unbind|fill|cached|linear|mark ...; the head of peer_probe.cc says more\n");
  return 2;
}
