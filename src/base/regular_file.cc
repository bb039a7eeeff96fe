// SPDX-License-Identifier: Apache-2.0

#include "base/regular_file.h"

#include <cerrno>

#include "base/kept_text.h"

namespace penstock::core {
namespace {

int error_of_kind(mode_t mode) {
  if (S_ISREG(mode)) return 0;
  if (S_ISDIR(mode)) return EISDIR;
  return S_ISLNK(mode) ? ELOOP : EINVAL;
}

// Opens exactly this file, even if another file has the name by now.
int open_behind_lease(int folder, const char* name, int flags) {
  const UniqueFd place(::openat(folder, name, O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW)));
  struct stat facts {};
  if (!place.valid() || ::fstat(place.get(), &facts) != 0) return -1;
  if (!S_ISREG(facts.st_mode)) {
    errno = EWOULDBLOCK;
    return -1;
  }
  const std::string there = "/proc/self/fd/" + std::to_string(place.get());
  return ::open(there.c_str(), (flags & ~(O_NOFOLLOW | O_CREAT | O_EXCL)) | O_CLOEXEC | O_NOCTTY);
}

// Opens no device or pipe, except one that takes the name just now.
int open_into(RegularFile& file, int folder, const char* name, int flags, mode_t mode) {
  const int follow = (flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
  if (::fstatat(folder, name, &file.facts, follow) == 0) {
    if (const int error = error_of_kind(file.facts.st_mode); error != 0) return error;
  } else if (errno != ENOENT || (flags & O_CREAT) == 0) {
    return errno;
  }
  file.fd.reset(open_without_waiting(folder, name, flags, mode));
  if (!file.fd.valid() || ::fstat(file.fd.get(), &file.facts) != 0) return errno;
  if (const int error = error_of_kind(file.facts.st_mode); error != 0) return error;
  // With O_NONBLOCK, io_uring would fail requests with EAGAIN.
  const int opened = ::fcntl(file.fd.get(), F_GETFL);
  return opened >= 0 && ::fcntl(file.fd.get(), F_SETFL, opened & ~O_NONBLOCK) == 0 ? 0 : errno;
}

}  // namespace

int open_without_waiting(int folder, const char* name, int flags, mode_t mode) {
  const int fd = ::openat(folder, name, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
  return fd >= 0 || errno != EWOULDBLOCK ? fd : open_behind_lease(folder, name, flags);
}

RegularFile open_regular_file(int folder, const char* name, int flags, mode_t mode) {
  RegularFile file;
  file.error = open_into(file, folder, name, flags, mode);
  if (file.error != 0) file.fd.reset();
  return file;
}

RegularFile open_regular_file(const std::string& path, int flags, mode_t mode) {
  return open_regular_file(AT_FDCWD, path.c_str(), flags, mode);
}

Result<RegularFile> open_regular(const std::string& path, int flags, mode_t mode, const char* step) {
  RegularFile file = open_regular_file(path, flags, mode);
  if (file.error == 0) return file;
  const char* const named = kept_text(std::string(step) + " " + path, step);
  const bool is_no_file = file.facts.st_mode != 0 && error_of_kind(file.facts.st_mode) == EINVAL;
  return is_no_file ? failure(Code::unsupported_file, named) : os_failure(file.error, named);
}

}  // namespace penstock::core
