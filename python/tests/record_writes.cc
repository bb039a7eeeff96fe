// SPDX-License-Identifier: Apache-2.0

// Preloaded into a test's child (LD_PRELOAD): writes down, in the file that PENSTOCK_TEST_RECORD names, every change of
// files and folders and every flush, in their order. test_checkpoint_crash.py makes of it what a machine that stopped
// at any moment would have on its disk. Writes by io_uring are not seen: switch it off.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace {

std::recursive_mutex mutex;

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int record_fd() {
  static const int fd = [] {
    const char* const name = std::getenv("PENSTOCK_TEST_RECORD");
    return name == nullptr
               ? -1
               : static_cast<int>(syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  }();
  return fd;
}

void put(const std::string& text) {
  const char* at = text.data();
  for (std::size_t left = text.size(); left > 0;) {
    const long done = syscall(SYS_write, record_fd(), at, left);
    if (done < 0) std::abort();
    at += done;
    left -= static_cast<std::size_t>(done);
  }
}

std::string inode_of(int fd) {
  struct stat facts {};
  return fstat(fd, &facts) == 0 ? std::to_string(facts.st_ino) : "0";
}

std::string inode_at(int folder, const char* name) {
  struct stat facts {};
  return fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 ? std::to_string(facts.st_ino) : "0";
}

// "INODE NAME" of the folder and the name in it.
std::string place_of(int folder, const char* name) {
  const std::string path = name;
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  return inode_at(folder, parent.c_str()) + " " + path.substr(slash == std::string::npos ? 0 : slash + 1);
}

void written(int fd, const iovec* pieces, int count, long long offset, long long done) {
  if (done <= 0) return;
  std::string data;
  for (int i = 0; i < count; ++i) data.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
  data.resize(static_cast<std::size_t>(done));
  put("write " + inode_of(fd) + " " + std::to_string(offset) + " " + std::to_string(data.size()) + "\n" + data);
}

ssize_t write_vector(const char* name, int fd, const iovec* pieces, int count, off64_t offset, int flags) {
  const std::scoped_lock lock(mutex);
  const long long at = offset == -1 ? lseek(fd, 0, SEEK_CUR) : offset;
  const ssize_t done = next<ssize_t (*)(int, const iovec*, int, off64_t, int)>(name)(fd, pieces, count, offset, flags);
  written(fd, pieces, count, at, done);
  return done;
}

ssize_t write_at(const char* name, int fd, const void* data, std::size_t size, off64_t offset) {
  const std::scoped_lock lock(mutex);
  const ssize_t done = next<ssize_t (*)(int, const void*, std::size_t, off64_t)>(name)(fd, data, size, offset);
  const iovec piece{const_cast<void*>(data), size};
  written(fd, &piece, 1, offset, done);
  return done;
}

int open_at(const char* name, int folder, const char* path, int flags, mode_t mode) {
  const std::scoped_lock lock(mutex);
  const bool may_make = (flags & O_CREAT) != 0 && (flags & O_TMPFILE) != O_TMPFILE;
  const bool was_there = !may_make || inode_at(folder, path) != "0";
  const int fd = next<int (*)(int, const char*, int, mode_t)>(name)(folder, path, flags, mode);
  const int error = errno;
  const bool is_new = (flags & O_TMPFILE) == O_TMPFILE || !was_there;
  if (fd >= 0 && is_new) put("new " + inode_of(fd) + "\n");  // Numbers come again when files are gone.
  if (fd >= 0 && !was_there) put("name " + place_of(folder, path) + " " + inode_of(fd) + "\n");
  errno = error;
  return fd;
}

int after(int result, const std::string& line) {
  const int error = errno;
  if (result == 0) put(line + "\n");
  errno = error;
  return result;
}

}  // namespace

#define PENSTOCK_MODE(flags)                  \
  mode_t mode = 0;                            \
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) { \
    va_list arguments;                        \
    va_start(arguments, flags);               \
    mode = va_arg(arguments, mode_t);         \
    va_end(arguments);                        \
  }

extern "C" {

int openat(int folder, const char* path, int flags, ...) {
  PENSTOCK_MODE(flags)
  return open_at("openat", folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  PENSTOCK_MODE(flags)
  return open_at("openat64", folder, path, flags, mode);
}
int open(const char* path, int flags, ...) {
  PENSTOCK_MODE(flags)
  return open_at("openat", AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  PENSTOCK_MODE(flags)
  return open_at("openat64", AT_FDCWD, path, flags, mode);
}

ssize_t pwritev2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  return write_vector("pwritev2", fd, pieces, count, offset, flags);
}
ssize_t pwritev64v2(int fd, const iovec* pieces, int count, off64_t offset, int flags) {
  return write_vector("pwritev64v2", fd, pieces, count, offset, flags);
}
ssize_t pwrite(int fd, const void* data, std::size_t size, off_t offset) {
  return write_at("pwrite", fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void* data, std::size_t size, off64_t offset) {
  return write_at("pwrite64", fd, data, size, offset);
}
ssize_t write(int fd, const void* data, std::size_t size) {
  const std::scoped_lock lock(mutex);
  const off_t at = lseek(fd, 0, SEEK_CUR);  // Of a pipe there is none, and nobody asks.
  const ssize_t done = syscall(SYS_write, fd, data, size);
  const iovec piece{const_cast<void*>(data), size};
  if (at >= 0) written(fd, &piece, 1, at, done);
  return done;
}

int fsync(int fd) {
  const std::scoped_lock lock(mutex);
  return after(next<int (*)(int)>("fsync")(fd), "flush " + inode_of(fd));
}
int fdatasync(int fd) {
  const std::scoped_lock lock(mutex);
  return after(next<int (*)(int)>("fdatasync")(fd), "flush " + inode_of(fd));
}

int linkat(int folder, const char* path, int new_folder, const char* name, int flags) {
  const std::scoped_lock lock(mutex);
  const int result =
      next<int (*)(int, const char*, int, const char*, int)>("linkat")(folder, path, new_folder, name, flags);
  return after(result, "name " + place_of(new_folder, name) + " " + inode_at(new_folder, name));
}
int renameat2(int folder, const char* path, int new_folder, const char* name, unsigned flags) {
  const std::scoped_lock lock(mutex);
  const std::string what = (flags & RENAME_EXCHANGE) != 0 ? "exchange " : "rename ";
  const std::string line = what + place_of(folder, path) + " " + place_of(new_folder, name);
  return after(static_cast<int>(syscall(SYS_renameat2, folder, path, new_folder, name, flags)), line);
}
int renameat(int folder, const char* path, int new_folder, const char* name) {
  return renameat2(folder, path, new_folder, name, 0);
}
int rename(const char* path, const char* name) { return renameat2(AT_FDCWD, path, AT_FDCWD, name, 0); }
int unlinkat(int folder, const char* path, int flags) {
  const std::scoped_lock lock(mutex);
  const std::string line = "remove " + place_of(folder, path);
  return after(static_cast<int>(syscall(SYS_unlinkat, folder, path, flags)), line);
}
int unlink(const char* path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char* path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int mkdirat(int folder, const char* path, mode_t mode) {
  const std::scoped_lock lock(mutex);
  const int result = static_cast<int>(syscall(SYS_mkdirat, folder, path, mode));
  return after(result, "folder " + place_of(folder, path) + " " + inode_at(folder, path));
}
int mkdir(const char* path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

}  // extern "C"
