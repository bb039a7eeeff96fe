// SPDX-License-Identifier: Apache-2.0

// Preloaded into bench/python/no_foreign_token.py (LD_PRELOAD): some reads and writes of files below one folder fail as
// a drive's do: with EIO, with ENOSPC, or after a part of their bytes. The clock steps when it is told to. What
// io_uring does is not seen: switch it off.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

namespace {

std::string* folder = nullptr;
std::atomic<std::uint64_t> every{0}, state{0}, injected{0};
std::atomic<std::int64_t> clock_offset{0};

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

std::uint64_t random_number() {
  std::uint64_t z = state += 0x9E3779B97F4A7C15;  // SplitMix64.
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

bool is_below_folder(int fd) {
  char link[64], name[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, name, sizeof name);
  return length > static_cast<ssize_t>(folder->size()) &&
         std::memcmp(name, folder->data(), folder->size()) == 0 && name[folder->size()] == '/';
}

enum class Fate { good, bad_sector, no_space, in_part };

Fate fate_of(int fd, bool is_write) {
  const std::uint64_t one_in = every;
  if (one_in == 0) return Fate::good;
  const std::uint64_t number = random_number();
  if (number % one_in != 0 || !is_below_folder(fd)) return Fate::good;
  ++injected;
  switch (number / one_in % 3) {
    case 0: return Fate::bad_sector;
    case 1: return is_write ? Fate::no_space : Fate::bad_sector;
    default: return Fate::in_part;
  }
}

// A part of `bytes`, in whole sectors where there are several, so that direct I/O takes it.
std::size_t part_of(std::size_t bytes) { return bytes > 1024 ? bytes / 2 / 512 * 512 : bytes / 2; }

template <typename Call>
ssize_t one_piece(int fd, bool is_write, std::size_t bytes, Call call) {
  const Fate fate = fate_of(fd, is_write);
  if (fate == Fate::good) return call(bytes);
  if (fate == Fate::in_part && bytes > 1) return call(part_of(bytes));
  errno = fate == Fate::no_space ? ENOSPC : EIO;
  return -1;
}

template <typename Call>
ssize_t many_pieces(int fd, bool is_write, const iovec* pieces, int count, Call call) {
  const Fate fate = fate_of(fd, is_write);
  if (fate == Fate::good) return call(pieces, count);
  if (fate == Fate::in_part && count > 1) return call(pieces, count / 2);
  if (fate == Fate::in_part && count == 1) {
    const iovec part{pieces->iov_base, part_of(pieces->iov_len)};
    return call(&part, 1);
  }
  errno = fate == Fate::no_space ? ENOSPC : EIO;
  return -1;
}

}  // namespace

#define PENSTOCK_WHOLE(name, data_type, is_write)                                      \
  ssize_t name(int fd, data_type data, std::size_t size) {                             \
    return one_piece(fd, is_write, size, [&](std::size_t bytes) {                      \
      return next<ssize_t (*)(int, data_type, std::size_t)>(#name)(fd, data, bytes);   \
    });                                                                                \
  }
#define PENSTOCK_AT(name, data_type, is_write)                                                      \
  ssize_t name(int fd, data_type data, std::size_t size, off_t offset) {                            \
    return one_piece(fd, is_write, size, [&](std::size_t bytes) {                                   \
      return next<ssize_t (*)(int, data_type, std::size_t, off_t)>(#name)(fd, data, bytes, offset); \
    });                                                                                             \
  }
#define PENSTOCK_PIECES(name, is_write)                                               \
  ssize_t name(int fd, const iovec* pieces, int count) {                              \
    return many_pieces(fd, is_write, pieces, count, [&](const iovec* some, int few) { \
      return next<ssize_t (*)(int, const iovec*, int)>(#name)(fd, some, few);         \
    });                                                                               \
  }
#define PENSTOCK_PIECES_AT(name, is_write)                                                                \
  ssize_t name(int fd, const iovec* pieces, int count, off_t offset, int flags) {                         \
    return many_pieces(fd, is_write, pieces, count, [&](const iovec* some, int few) {                     \
      return next<ssize_t (*)(int, const iovec*, int, off_t, int)>(#name)(fd, some, few, offset, flags);  \
    });                                                                                                   \
  }
#define PENSTOCK_FLUSH(name)                                                       \
  int name(int fd) {                                                               \
    if (fate_of(fd, true) == Fate::good) return next<int (*)(int)>(#name)(fd);     \
    errno = EIO;                                                                   \
    return -1;                                                                     \
  }

extern "C" {

// From now on one call in so many fails, of those below the folder; 0: none.
void penstock_test_hostile(const char* below, std::uint64_t one_in, std::uint64_t seed) {
  every = 0;
  folder = new std::string(below);  // The old one stays: a thread may be reading it.
  state = seed;
  every = one_in;
}
std::uint64_t penstock_test_injected() { return injected; }
void penstock_test_step_clock(std::int64_t seconds) { clock_offset += seconds; }

PENSTOCK_WHOLE(read, void*, false)
PENSTOCK_WHOLE(write, const void*, true)
PENSTOCK_AT(pread, void*, false)
PENSTOCK_AT(pread64, void*, false)
PENSTOCK_AT(pwrite, const void*, true)
PENSTOCK_AT(pwrite64, const void*, true)
PENSTOCK_PIECES(readv, false)
PENSTOCK_PIECES(writev, true)
PENSTOCK_PIECES_AT(preadv2, false)
PENSTOCK_PIECES_AT(preadv64v2, false)
PENSTOCK_PIECES_AT(pwritev2, true)
PENSTOCK_PIECES_AT(pwritev64v2, true)

std::size_t fwrite(const void* data, std::size_t size, std::size_t count, std::FILE* file) {  // numpy's tofile.
  const Fate fate = every == 0 ? Fate::good : fate_of(fileno(file), true);
  const auto call = next<std::size_t (*)(const void*, std::size_t, std::size_t, std::FILE*)>("fwrite");
  if (fate == Fate::good) return call(data, size, count, file);
  errno = fate == Fate::no_space ? ENOSPC : EIO;
  return fate == Fate::in_part ? call(data, size, count / 2, file) : 0;
}
PENSTOCK_FLUSH(fsync)
PENSTOCK_FLUSH(fdatasync)

int clock_gettime(clockid_t clock, timespec* time) {
  const int result = next<int (*)(clockid_t, timespec*)>("clock_gettime")(clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += clock_offset;
  return result;
}

}  // extern "C"
