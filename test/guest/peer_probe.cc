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
#include <string>
#include <vector>

#include "probe_tools.h"

namespace penstock::guest {
namespace {

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
  Piece piece;
  Way way;
  bool direct;
};

// The first two mebibytes are only read.
constexpr Operation kOperations[] = {
    {{"read", false, 64 * kKiB, 64 * kKiB}, Way::kCall, true},
    {{"read_page", false, 4 * kKiB, 4 * kKiB}, Way::kCall, true},
    {{"read_large", false, 256 * kKiB, kMiB}, Way::kCall, true},
    {{"read_ring", false, 128 * kKiB, 64 * kKiB}, Way::kRing, true},
    {{"write", true, 2048 * kKiB, 64 * kKiB}, Way::kCall, true},
    {{"write_large", true, 2560 * kKiB, kMiB}, Way::kCall, true},
    {{"write_ring", true, 2304 * kKiB, 64 * kKiB}, Way::kRing, true},
    {{"read_buffered", false, 192 * kKiB, 64 * kKiB}, Way::kCall, false},
    {{"register", false, 0, 64 * kKiB}, Way::kRegister, true},
};

long perform(const Operation& operation, int fd, char* memory) {
  const Piece& piece = operation.piece;
  if (operation.way == Way::kRegister) return ring_register(memory, piece.bytes);
  if (operation.way == Way::kRing) return ring_io(piece.writes, fd, memory, piece.bytes, piece.offset);
  const iovec vector{memory, piece.bytes};
  const auto at = static_cast<off_t>(piece.offset);
  const ssize_t done = piece.writes ? pwritev(fd, &vector, 1, at) : preadv(fd, &vector, 1, at);
  return done < 0 ? -errno : done;
}

int run(const char* name, const std::string& peer, const char* target, const char* marks, uint64_t first) {
  char* memory = peer_memory(peer);
  Bench bench = open_bench(name, target, marks, first);
  for (const Operation& operation : kOperations) {
    measure(&bench, operation.piece, memory,
            [&] { return perform(operation, operation.direct ? bench.direct : bench.buffered, memory); });
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
  answer(name, "read", error);
  answer(name, "touch", signal_number == 0 ? "" : sigabbrev_np(signal_number));
  answer(name, "offer", offered ? "" : "gone");
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

int run_words(int count, char** words) {
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

}  // namespace
}  // namespace penstock::guest

int main(int count, char** words) { return penstock::guest::run_words(count, words); }
