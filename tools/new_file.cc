#include "new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include <filesystem>

#include "failure.h"
#include "interrupt.h"

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

NewFile::~NewFile() {
  if (temporary_.empty()) return;
  unlinkat(folder_fd_.get(), temporary_.c_str(), 0);
  remove_on_second_interrupt("");
}

bool NewFile::open_nameless(int flags) {
  // Naming it later goes through /proc, which a container may lack.
  if (access("/proc/self/fd", X_OK) != 0) return false;
  fd_.reset(openat(folder_fd_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600));
  return fd_.valid();  // Where it fails for a lasting reason, open_named() fails for the same and says so.
}

void NewFile::open_named(int flags) {
  const std::string name = unguessable_name();
  remove_on_second_interrupt((folder_ + "/" + name).c_str());
  fd_.reset(openat(folder_fd_.get(), name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | flags, 0600));
  if (!fd_.valid()) {
    const int error = errno;
    // A file system may make the file, and then refuse it O_DIRECT.
    if (error != EEXIST) unlinkat(folder_fd_.get(), name.c_str(), 0);
    remove_on_second_interrupt("");
    errno = error;
    fail_to_create(path_, flags);
  }
  temporary_ = name;
}

void NewFile::link_to(const std::string& name) {
  const std::string self = fmt::format("/proc/self/fd/{}", fd_.get());
  if (linkat(AT_FDCWD, self.c_str(), folder_fd_.get(), name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    fail_errno(path_, "name the finished file");
  }
}

void NewFile::move_to_final_name() {
  const int folder = folder_fd_.get();
  if (renameat2(folder, temporary_.c_str(), folder, name_.c_str(), RENAME_NOREPLACE) == 0) return temporary_.clear();
  if (errno != EINVAL && errno != ENOSYS) fail_errno(path_, "name the finished file");
  // NFS and a few others cannot rename without replacing; a second link then does the same.
  if (linkat(folder, temporary_.c_str(), folder, name_.c_str(), 0) != 0) fail_errno(path_, "name the finished file");
}

void NewFile::publish(bool replace) {
  if (fsync(fd_.get()) != 0) fail_errno(path_, "flush the file");
  if (replace && temporary_.empty()) {
    const std::string name = unguessable_name();
    link_to(name);
    temporary_ = name;
  }
  if (replace) {
    if (renameat(folder_fd_.get(), temporary_.c_str(), folder_fd_.get(), name_.c_str()) != 0) {
      fail_errno(path_, "rename the finished file");
    }
    temporary_.clear();
  } else if (temporary_.empty()) {
    link_to(name_);
  } else {
    move_to_final_name();
  }
  if (fsync(folder_fd_.get()) != 0 && errno != EINVAL) fail_errno(folder_, "flush the folder");
}

}  // namespace penstock::tools
