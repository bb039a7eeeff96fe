// SPDX-License-Identifier: Apache-2.0

// Preloaded into a test (LD_PRELOAD): of the calls that change files and folders, and of flushes, the one that the test
// names by its number fails with EIO, as a drive's would that has an error there and then. Whether the call was carried
// out before it said so is the test's to choose, too: a drive does not tell. Writes by io_uring are not seen: switch it
// off.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>

namespace {

std::atomic<bool> is_armed{false};
std::atomic<bool> is_done_first{false};
std::atomic<long> calls{0};
std::atomic<long> failing{0};
std::atomic<int> folders_answer{0};

template <typename Result, typename... Arguments>
Result call(const char* name, Arguments... arguments) {
  const auto next = reinterpret_cast<Result (*)(Arguments...)>(dlsym(RTLD_NEXT, name));
  if (!is_armed || ++calls != failing) return next(arguments...);
  if (is_done_first) (void)next(arguments...);
  errno = EIO;
  return Result{-1};
}

int open_file(const char* name, int folder, const char* path, int flags, mode_t mode) {
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) return call<int>(name, folder, path, flags, mode);
  return reinterpret_cast<int (*)(int, const char*, int, mode_t)>(dlsym(RTLD_NEXT, name))(folder, path, flags, mode);
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

#define PENSTOCK_OPEN(name, next, folder, ...)             \
  int name(__VA_ARGS__ const char* path, int flags, ...) { \
    va_list arguments;                                     \
    va_start(arguments, flags);                            \
    const mode_t mode = mode_of(flags, arguments);         \
    va_end(arguments);                                     \
    return open_file(next, folder, path, flags, mode);     \
  }
#define PENSTOCK_COMMA ,

extern "C" {

// The call of this number from now on fails, counted from 1; 0: none.
void penstock_test_fail(long number, int done_first) {
  calls = 0;
  failing = number;
  is_done_first = done_first != 0;
  is_armed = true;
}
// From now on a flush of any folder fails with this error; 0: it does not.
void penstock_test_flush_of_folders(int error) { folders_answer = error; }
// How many there were since then. From here on none is counted.
long penstock_test_calls() {
  is_armed = false;
  return calls;
}

PENSTOCK_OPEN(openat, "openat", folder, int folder PENSTOCK_COMMA)
PENSTOCK_OPEN(openat64, "openat64", folder, int folder PENSTOCK_COMMA)
PENSTOCK_OPEN(open, "openat", AT_FDCWD, )
PENSTOCK_OPEN(open64, "openat64", AT_FDCWD, )

ssize_t write(int fd, const void* data, std::size_t size) {
  struct stat facts {};  // What ends a wait by a pipe or an eventfd reaches no drive.
  if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode)) return call<ssize_t>("write", fd, data, size);
  return reinterpret_cast<ssize_t (*)(int, const void*, std::size_t)>(dlsym(RTLD_NEXT, "write"))(fd, data, size);
}
ssize_t pwrite(int fd, const void* data, std::size_t size, off_t offset) {
  return call<ssize_t>("pwrite", fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void* data, std::size_t size, off64_t offset) {
  return call<ssize_t>("pwrite64", fd, data, size, offset);
}
ssize_t pwritev2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  return call<ssize_t>("pwritev2", fd, pieces, count, offset, flags);
}
ssize_t pwritev64v2(int fd, const iovec* pieces, int count, off64_t offset, int flags) {
  return call<ssize_t>("pwritev64v2", fd, pieces, count, offset, flags);
}
int fsync(int fd) {
  struct stat facts {};
  if (folders_answer != 0 && fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode)) {
    errno = folders_answer;
    return -1;
  }
  return call<int>("fsync", fd);
}
int fdatasync(int fd) { return call<int>("fdatasync", fd); }
int linkat(int folder, const char* path, int new_folder, const char* name, int flags) {
  return call<int>("linkat", folder, path, new_folder, name, flags);
}
int renameat2(int folder, const char* path, int new_folder, const char* name, unsigned flags) {
  return call<int>("renameat2", folder, path, new_folder, name, flags);
}
int renameat(int folder, const char* path, int new_folder, const char* name) {
  return call<int>("renameat", folder, path, new_folder, name);
}
int rename(const char* path, const char* name) { return call<int>("rename", path, name); }
int link(const char* path, const char* name) { return call<int>("link", path, name); }
int unlinkat(int folder, const char* path, int flags) { return call<int>("unlinkat", folder, path, flags); }
int unlink(const char* path) { return call<int>("unlink", path); }
int rmdir(const char* path) { return call<int>("rmdir", path); }
int mkdirat(int folder, const char* path, mode_t mode) { return call<int>("mkdirat", folder, path, mode); }
int mkdir(const char* path, mode_t mode) { return call<int>("mkdir", path, mode); }

}  // extern "C"
