// SPDX-License-Identifier: Apache-2.0

// NVIDIA's library without a GPU, under its own name: memory is moved by pread and pwrite. FAKE_VENDOR says how it
// behaves, read at each call:
//
//   direct    counts its requests in the statistics of a fake nvidia-fs, the file FAKE_VENDOR_STATS
//   compat    counts nothing
//   closed    its driver does not open: 5001     refusing  it registers no file: 5027
//   wrong     says that it moved, and did not    short     moves a third at a time
//   errno     -1, with EIO                       negative  the number 5011 of its own, below zero
//   full      -1, with ENOSPC, for writes; quota: EDQUOT; large: EFBIG
//             idle      moves nothing, and says so
//   already   its driver was opened by others: 5026
//   hang_open, hang_register, hang_read, hang_write   does not come back from such a call while it is so
//   torn      moves half of the bytes, and says EIO     huge      says that it moved more than it was asked
//
// Like the real one it refuses descriptors by their open flags, O_TMPFILE among them: 5019. And it opens each file a
// second time, by its name, and refuses those that have none: 5031.
#include "fakes/fake_vendor/fake_vendor.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

// A program that has them is asked before each call of a file or its memory, and tells where the CPU finds the memory;
// and is told of its end.
extern "C" [[gnu::weak]] void* fake_vendor_enter(const char* call, void* memory, std::size_t size);
extern "C" [[gnu::weak]] void fake_vendor_leave();

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kPage = 4096;
constexpr int kRefusedFlags = O_APPEND | O_NONBLOCK | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_TMPFILE;
std::mutex mutex;
int counted[2] = {};

struct Error {
  std::int32_t error;
  std::int32_t cuda_error;
};
struct Descriptor {
  std::int32_t kind;
  union {
    int fd;
    void* handle;
  } file;
  const void* operations;
};
struct Handle {
  int direct;
  int cached;
};

bool is(const char* word) {
  const char* script = std::getenv("FAKE_VENDOR");
  return std::strcmp(script == nullptr ? "compat" : script, word) == 0;
}

// Blocks while FAKE_VENDOR has this word.
void hang_while(const char* word) {
  while (is(word)) ::usleep(1000);
}

void count(bool write) {
  const char* path = std::getenv("FAKE_VENDOR_STATS");
  if (path == nullptr) return;
  counted[write ? 1 : 0] += 1;
  const std::string name = std::string(path) + ".new";
  if (FILE* file = std::fopen(name.c_str(), "we")) {
    std::fprintf(file, "NVFS Driver(version: 2.28.4)\nReads\t\t\t\t: n=%d ok=%d err=0 readMiB=1\n", counted[0],
                 counted[0]);
    std::fprintf(file, "Reads\t\t\t\t: Bandwidth(MiB/s)=0 Avg-Latency(usec)=0\n");
    std::fprintf(file, "Writes\t\t\t\t: n=%d ok=%d err=0 writeMiB=1\n", counted[1], counted[1]);
    std::fclose(file);
    std::rename(name.c_str(), path);
  }
}

// -1 where the file has no name, or not this one any more.
int open_by_name(int fd) {
  char name[PATH_MAX];
  const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1);
  if (length < 0) return -1;
  name[length] = '\0';
  const int opened = ::open(name, O_RDWR | O_CLOEXEC);
  return opened >= 0 ? opened : ::open(name, O_RDONLY | O_CLOEXEC);
}

struct Call {
  explicit Call(const char* name, const void* its_memory = nullptr, std::size_t size = 0)
      : memory(static_cast<char*>(const_cast<void*>(its_memory))) {
    if (fake_vendor_enter != nullptr) memory = static_cast<char*>(fake_vendor_enter(name, memory, size));
  }
  ~Call() {
    if (fake_vendor_leave != nullptr) fake_vendor_leave();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  char* memory;
};

ssize_t fail(int error) {
  errno = error;
  return -1;
}

// Around the page cache where the kernel takes it, whatever the memory.
ssize_t move(const Handle& handle, bool write, char* memory, std::size_t size, off_t offset) {
  if (((static_cast<std::size_t>(offset) | size) % kBlock) != 0) {
    return write ? ::pwrite(handle.cached, memory, size, offset) : ::pread(handle.cached, memory, size, offset);
  }
  char* own = static_cast<char*>(std::aligned_alloc(kPage, (size + kPage - 1) & ~(kPage - 1)));
  if (write) std::memcpy(own, memory, size);
  const ssize_t moved = write ? ::pwrite(handle.direct, own, size, offset) : ::pread(handle.direct, own, size, offset);
  if (!write && moved > 0) std::memcpy(memory, own, static_cast<std::size_t>(moved));
  std::free(own);
  return moved;
}

}  // namespace

extern "C" {

FakeVendorSeen fake_vendor_seen;

Error cuFileGetVersion(int* version) {
  *version = 1990;
  return {};
}

Error cuFileDriverOpen() {
  const Call call("open");
  if (is("closed")) return {5001, 0};
  if (is("already")) return {5026, 0};
  hang_while("hang_open");
  fake_vendor_seen.opens += 1;
  return {};
}

#ifndef FAKE_VENDOR_INCOMPLETE
Error cuFileDriverClose_v2() {
  fake_vendor_seen.closes += 1;
  return {};
}
Error cuFileDriverClose() { return cuFileDriverClose_v2(); }
#endif

Error cuFileHandleRegister(void** handle, Descriptor* descriptor) {
  const Call call("register");
  if (is("refusing") || descriptor->kind != 1) return {5027, 0};
  const int flags = ::fcntl(descriptor->file.fd, F_GETFL);
  if ((flags & O_DIRECT) == 0) return {5020, 0};
  if ((flags & kRefusedFlags) != 0) return {5019, 0};
  hang_while("hang_register");
  const int cached = open_by_name(descriptor->file.fd);
  if (cached < 0) return {5031, 0};
  *handle = new Handle{descriptor->file.fd, cached};
  const std::lock_guard lock(mutex);
  fake_vendor_seen.files += 1;
  fake_vendor_seen.registrations += 1;
  return {};
}

void cuFileHandleDeregister(void* handle) {
  const bool is_closed = ::fcntl(static_cast<Handle*>(handle)->direct, F_GETFD) < 0;
  ::close(static_cast<Handle*>(handle)->cached);
  delete static_cast<Handle*>(handle);
  const std::lock_guard lock(mutex);
  fake_vendor_seen.files -= 1;
  fake_vendor_seen.closed_first += is_closed ? 1 : 0;
}

ssize_t cuFileRead(void* handle, void* memory, std::size_t size, off_t offset, off_t memory_offset) {
  const Call call("read", static_cast<char*>(memory) + memory_offset, size);
  hang_while("hang_read");
  const std::lock_guard lock(mutex);
  fake_vendor_seen.reads += 1;
  cuFileGetVersion(&fake_vendor_seen.version);
  if (is("errno")) return fail(EIO);
  if (is("negative")) return -5011;
  if (is("wrong")) return static_cast<ssize_t>(size);
  if (is("idle")) return 0;
  if (is("direct") || is("short")) count(false);
  if (is("short")) size = std::max<std::size_t>(size / 3, 1);
  if (is("huge")) return static_cast<ssize_t>(size) + 1;
  if (is("torn")) {
    (void)move(*static_cast<Handle*>(handle), false, call.memory, size / 2, offset);
    return fail(EIO);
  }
  return move(*static_cast<Handle*>(handle), false, call.memory, size, offset);
}

ssize_t cuFileWrite(void* handle, const void* memory, std::size_t size, off_t offset, off_t memory_offset) {
  const Call call("write", static_cast<const char*>(memory) + memory_offset, size);
  hang_while("hang_write");
  const std::lock_guard lock(mutex);
  fake_vendor_seen.writes += 1;
  if (is("errno")) return fail(EIO);
  if (is("full")) return fail(ENOSPC);
  if (is("quota")) return fail(EDQUOT);
  if (is("large")) return fail(EFBIG);
  if (is("negative")) return -5011;
  if (is("wrong")) return static_cast<ssize_t>(size);
  if (is("idle")) return 0;
  if (is("direct") || is("short")) count(true);
  if (is("short")) size = std::max<std::size_t>(size / 3, 1);
  if (is("huge")) return static_cast<ssize_t>(size) + 1;
  if (is("torn")) {
    (void)move(*static_cast<Handle*>(handle), true, call.memory, size / 2, offset);
    return fail(EIO);
  }
  return move(*static_cast<Handle*>(handle), true, call.memory, size, offset);
}

}  // extern "C"
