// SPDX-License-Identifier: Apache-2.0

#include "tools/common/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

std::string unguessable_name() {
  std::uint64_t random[2];
  if (getrandom(random, sizeof random, 0) != sizeof random) fail_errno("temporary file", "draw a random name");
  return fmt::format(".penstock-{:016x}{:016x}", random[0], random[1]);
}

[[noreturn]] void fail_to_create(const std::string& path, int flags) {
  if (errno == EINVAL && (flags & O_DIRECT) != 0) {
    throw Failure(path + ": its file system does not take O_DIRECT; leave --direct out");
  }
  fail_errno(path, "create the file");
}

}  // namespace

NewFile::NewFile(const std::string& path, int flags, bool needs_name) : path_(path) {
  const std::filesystem::path parts(path);
  folder_ = parts.has_parent_path() ? parts.parent_path().string() : ".";
  name_ = parts.filename();
  folder_fd_.reset(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_fd_.valid()) fail_errno(folder_, "open the folder");
  if (needs_name || !open_nameless(flags)) open_named(flags);
}

NewFile::~NewFile() = default;

bool NewFile::open_nameless(int flags) {
  // Naming it later goes through /proc, which a container may lack.
  if (access("/proc/self/fd", X_OK) != 0) return false;
  fd_.reset(openat(folder_fd_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600));
  return fd_.valid();  // Where it fails for a lasting reason, open_named() fails for the same and says so.
}

void NewFile::open_named(int flags) {
  temporary_.emplace(folder_fd_.get(), unguessable_name());
  fd_.reset(openat(folder_fd_.get(), temporary_->name().c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | flags, 0600));
  if (fd_.valid()) return;
  const int error = errno;
  if (error == EEXIST) temporary_->keep();  // Another's.
  temporary_.reset();                       // A file system may make the file, and then refuse it O_DIRECT.
  errno = error;
  fail_to_create(path_, flags);
}

bool NewFile::link_to(const std::string& name) {
  const std::string self = fmt::format("/proc/self/fd/{}", fd_.get());
  return linkat(AT_FDCWD, self.c_str(), folder_fd_.get(), name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

void NewFile::move_to_final_name() {
  const int folder = folder_fd_.get();
  const char* const from = temporary_->name().c_str();
  if (renameat2(folder, from, folder, name_.c_str(), RENAME_NOREPLACE) == 0) return temporary_->keep();
  if (errno != EINVAL && errno != ENOSYS) fail_errno(path_, "name the finished file");
  // NFS and a few others cannot rename without replacing; a second link then does the same.
  if (linkat(folder, from, folder, name_.c_str(), 0) != 0) fail_errno(path_, "name the finished file");
}

// Linux has no call that gives a file without a name that of another one.
void NewFile::replace_final_name() {
  if (!temporary_) {
    temporary_.emplace(folder_fd_.get(), unguessable_name());
    if (!link_to(temporary_->name())) fail_errno(path_, "name the finished file");
  }
  if (renameat(folder_fd_.get(), temporary_->name().c_str(), folder_fd_.get(), name_.c_str()) != 0) {
    fail_errno(path_, "rename the finished file");
  }
  temporary_->keep();
}

void NewFile::publish(bool replace) {
  if (fsync(fd_.get()) != 0) fail_errno(path_, "flush the file");
  const bool is_linked = !temporary_ && link_to(name_);
  if (!is_linked && replace) replace_final_name();
  else if (!is_linked && temporary_) move_to_final_name();
  else if (!is_linked) fail_errno(path_, "name the finished file");
  if (fsync(folder_fd_.get()) == 0 || errno == EINVAL) return;
  throw Failure(
      fmt::format("{}: it is whole and in place, but a crash of the machine may take its name away: could not flush "
                  "the folder {}: {}; see the kernel's log",
                  path_, folder_, std::strerror(errno)));
}

}  // namespace penstock::tools
