// SPDX-License-Identifier: Apache-2.0

#include "base/publish.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/unique_fd.h"

namespace penstock::core {
namespace {

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Status publish_file(const std::string& name, std::string_view content) {
  const std::size_t slash = name.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : name.substr(0, slash);
  if (name.empty() || slash == name.size() - 1) return failure(Code::invalid_argument, "name the file");
  // A pipe or a device is not what anybody wants to find replaced.
  struct stat there {};
  if (::lstat(name.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISLNK(there.st_mode) &&
      !S_ISDIR(there.st_mode)) {
    return failure(Code::unsupported_file, "replace what is no regular file");
  }
  std::string temporary = folder + "/.penstock-XXXXXX";
  const UniqueFd file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return os_failure(errno, "make a file in its folder");
  // mkostemp gives 0600; what anybody may read of the machine anyway needs no secret.
  const bool written = write_all(file.get(), content) && ::fchmod(file.get(), 0644) == 0 && ::fsync(file.get()) == 0 &&
                       ::rename(temporary.c_str(), name.c_str()) == 0;
  if (!written) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return os_failure(error, "write the file");
  }
  const UniqueFd directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) (void)::fsync(directory.get());
  return success();
}

}  // namespace penstock::core
