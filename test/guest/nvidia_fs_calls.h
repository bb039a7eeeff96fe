// SPDX-License-Identifier: Apache-2.0

// The calls of nvidia-fs, as numbers and offsets in 104 bytes, for a probe that shares nothing with the library nor
// with the stand-in: whoever has one of these numbers wrong is found out by the other.
#pragma once

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "probe_tools.h"

namespace penstock::guest {

constexpr size_t kGpuPage = 64 * kKiB;
constexpr size_t kPage = 4 * kKiB;

class Argument {
 public:
  template <typename T>
  void put(size_t at, T value) {
    std::memcpy(bytes_ + at, &value, sizeof value);
  }
  template <typename T>
  T get(size_t at) const {
    T value;
    std::memcpy(&value, bytes_ + at, sizeof value);
    return value;
  }
  // 0, or an error as a negative number: the call's own, or what it left at offset 32 where it says EPERM.
  long call(int node, int number) {
    if (ioctl(node, 0x40047400u + static_cast<unsigned>(number), bytes_) == 0) return 0;
    return errno == EPERM ? static_cast<long>(get<int64_t>(32)) : -errno;
  }

 private:
  alignas(8) unsigned char bytes_[104] = {};
};

enum Number { kRemove = 1, kRead = 2, kMap = 3, kWrite = 4, kBatch = 8 };

// A shadow buffer with its fence page, not yet mapped to GPU memory.
struct Group {
  int node = -1;
  size_t bytes = 0;
  char* shadow = nullptr;
  char* fence = nullptr;

  template <typename T>
  T fenced(size_t at) const {
    T value;
    std::memcpy(&value, fence + at, sizeof value);
    return value;
  }
};

inline Group make_group(int node, size_t bytes) {
  Group group{node, bytes, nullptr, host_memory(kPage)};
  void* shadow = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, node, 0);
  if (shadow == MAP_FAILED) fail("mmap of a shadow buffer");
  group.shadow = static_cast<char*>(shadow);
  return group;
}

inline void close_group(Group* group) {
  munmap(group->shadow, group->bytes);
  munmap(group->fence, kPage);
  group->shadow = group->fence = nullptr;
}

inline Argument map_argument(const Group& group, const void* gpu, size_t size) {
  Argument map;
  map.put(0, static_cast<int64_t>(size));
  map.put(8, uint64_t{3} << 8);  // The address 0000:03:00.0.
  map.put(16, group.shadow);
  map.put(24, gpu);
  map.put(32, group.fence);
  map.put(40, static_cast<uint32_t>(group.bytes / kPage));
  return map;
}

inline long map_gpu(const Group& group, const void* gpu, size_t size) {
  return map_argument(group, gpu, size).call(group.node, kMap);
}

// Of `size` bytes between `offset` of the file and `at` of the mapped memory; with a ticket, asynchronous.
inline Argument io_argument(const Group& group, int fd, size_t offset, size_t size, size_t at, uint64_t ticket = 0) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) fail("fstat");
  const dev_t device = S_ISBLK(facts.st_mode) ? facts.st_rdev : facts.st_dev;
  Argument io;
  io.put(0, group.shadow);
  io.put(8, static_cast<int64_t>(offset));
  io.put(16, static_cast<uint64_t>(size));
  io.put(24, ticket);
  io.put(40, static_cast<uint64_t>(facts.st_ino));
  io.put(52, static_cast<uint32_t>(major(device)));
  io.put(56, static_cast<uint32_t>(minor(device)));
  io.put(60, static_cast<uint64_t>(at));
  io.put(72, static_cast<int32_t>(fd));
  io.put(76, static_cast<uint8_t>(ticket == 0 ? 1 : 0));
  return io;
}

// Bytes moved, or a negative error.
inline long call_io(const Group& group, Argument* io, Number number) {
  std::memset(group.fence, 0, 40);
  const long error = io->call(group.node, number);
  return error != 0 ? error : static_cast<long>(io->get<int64_t>(32));
}

// Waits for the fence of an asynchronous request, ten seconds at most; bytes moved, or a negative error.
inline long wait_for(const Group& group, uint64_t ticket) {
  for (int i = 0; i < 10000; ++i) {
    if (__atomic_load_n(reinterpret_cast<uint64_t*>(group.fence), __ATOMIC_ACQUIRE) == ticket)
      return static_cast<long>(group.fenced<int64_t>(8));
    usleep(1000);
  }
  return -ETIME;
}

inline long move(const Group& group, int fd, bool writes, size_t offset, size_t size, size_t at, uint64_t ticket = 0) {
  Argument io = io_argument(group, fd, offset, size, at, ticket);
  const long result = call_io(group, &io, writes ? kWrite : kRead);
  return result == 0 && ticket != 0 ? wait_for(group, ticket) : result;
}

}  // namespace penstock::guest
