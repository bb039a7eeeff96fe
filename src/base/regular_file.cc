// SPDX-License-Identifier: Apache-2.0

#include "base/regular_file.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "base/kept_text.h"

namespace penstock::core {
namespace {

Status check_regular(const struct stat& facts, const char* step) {
  if (S_ISREG(facts.st_mode)) return success();
  if (S_ISDIR(facts.st_mode)) return os_failure(EISDIR, step);
  if (S_ISLNK(facts.st_mode)) return os_failure(ELOOP, step);
  return failure(Code::unsupported_file, step);
}

}  // namespace

Result<RegularFile> open_regular(const std::string& path, int flags, mode_t mode, const char* step) {
  const char* const named = kept_text(std::string(step) + " " + path, step);
  RegularFile file;
  // What is no file is not even opened, unless it came to be there just now.
  const bool is_there =
      ::fstatat(AT_FDCWD, path.c_str(), &file.facts, (flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0) == 0;
  if (!is_there && (errno != ENOENT || (flags & O_CREAT) == 0)) return os_failure(errno, named);
  Status status = is_there ? check_regular(file.facts, named) : success();
  if (!status.ok()) return status;
  file.fd.reset(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode));
  if (!file.fd.valid() || ::fstat(file.fd.get(), &file.facts) != 0) return os_failure(errno, named);
  status = check_regular(file.facts, named);
  if (!status.ok()) return status;
  // io_uring would fail requests with EAGAIN under O_NONBLOCK.
  const int opened = ::fcntl(file.fd.get(), F_GETFL);
  if (opened < 0 || ::fcntl(file.fd.get(), F_SETFL, opened & ~O_NONBLOCK) != 0) return os_failure(errno, named);
  return file;
}

}  // namespace penstock::core
