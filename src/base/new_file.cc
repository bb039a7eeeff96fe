// SPDX-License-Identifier: Apache-2.0

#include "base/new_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdint>
#include <cstdio>

namespace penstock::core {
namespace {

constexpr const char* kNameStep = "name the finished file";

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool is_replaceable(int folder_fd, const std::string& name) {
  struct stat there {};
  if (::fstatat(folder_fd, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) return true;
  return S_ISREG(there.st_mode) || S_ISLNK(there.st_mode) || S_ISDIR(there.st_mode);  // The kernel refuses the last.
}

}  // namespace

Result<std::unique_ptr<NewFile>> NewFile::create(const std::string& path, const Options& options) {
  std::unique_ptr<NewFile> file(new NewFile(options));
  if (const Status status = file->open(path, options); !status.ok()) return status;
  return file;
}

NewFile::~NewFile() { remove_temporary_name(); }

Status NewFile::open(const std::string& path, const Options& options) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  name_ = path.substr(slash == std::string::npos ? 0 : slash + 1);
  if (name_.empty()) return os_failure(path.empty() ? ENOENT : EISDIR, "create the file");
  folder_fd_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_fd_.valid()) return os_failure(errno, "open the folder");
  return !options.needs_name && open_nameless(options) ? success() : open_named(options);
}

bool NewFile::open_nameless(const Options& options) {
  // Naming it later goes through /proc, which a container may lack.
  if (::access("/proc/self/fd", X_OK) != 0) return false;
  fd_.reset(::openat(folder_fd_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC | options.flags, options.mode));
  return fd_.valid();  // Where it fails for a lasting reason, open_named() fails for the same and says so.
}

Status NewFile::open_named(const Options& options) {
  if (const Status status = draw_temporary_name(); !status.ok()) return status;
  const int flags = O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | options.flags;
  fd_.reset(::openat(folder_fd_.get(), temporary_.c_str(), flags, options.mode));
  if (fd_.valid()) return success();
  const int error = errno;
  if (error == EEXIST) forget_temporary_name();  // Another's.
  remove_temporary_name();                       // A file system may make the file, and then refuse it O_DIRECT.
  return os_failure(error, "create the file");
}

Status NewFile::draw_temporary_name() {
  std::uint64_t random[2];
  if (::getrandom(random, sizeof random, 0) != sizeof random)
    return os_failure(errno, "get random bytes for a temporary name");
  char name[64];
  std::snprintf(name, sizeof name, ".penstock-%016" PRIx64 "%016" PRIx64, random[0], random[1]);
  temporary_ = name;
  if (watcher_ != nullptr) watcher_->appears(folder_fd_.get(), temporary_);
  return success();
}

void NewFile::forget_temporary_name() {
  temporary_.clear();
  if (watcher_ != nullptr) watcher_->is_gone();
}

void NewFile::remove_temporary_name() {
  if (temporary_.empty()) return;
  (void)::unlinkat(folder_fd_.get(), temporary_.c_str(), 0);
  forget_temporary_name();
}

bool NewFile::link_to(const std::string& name) {
  const std::string self = "/proc/self/fd/" + std::to_string(fd_.get());
  return ::linkat(AT_FDCWD, self.c_str(), folder_fd_.get(), name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

Status NewFile::move_to_final_name() {
  const int folder = folder_fd_.get();
  if (::renameat2(folder, temporary_.c_str(), folder, name_.c_str(), RENAME_NOREPLACE) == 0) {
    forget_temporary_name();
    return success();
  }
  if (errno != EINVAL && errno != ENOSYS) return os_failure(errno, kNameStep);
  // NFS and a few others cannot rename without replacing; a second link then does the same.
  if (::linkat(folder, temporary_.c_str(), folder, name_.c_str(), 0) != 0) return os_failure(errno, kNameStep);
  remove_temporary_name();
  return success();
}

// Linux has no call that gives a file without a name that of another one.
Status NewFile::replace_final_name() {
  if (!is_replaceable(folder_fd_.get(), name_)) return failure(Code::unsupported_file, "replace what has this name");
  if (temporary_.empty()) {
    if (const Status status = draw_temporary_name(); !status.ok()) return status;
    if (!link_to(temporary_)) {
      const int error = errno;
      forget_temporary_name();
      return os_failure(error, kNameStep);
    }
  }
  if (::renameat(folder_fd_.get(), temporary_.c_str(), folder_fd_.get(), name_.c_str()) != 0) {
    return os_failure(errno, "rename the finished file");
  }
  forget_temporary_name();
  return success();
}

Status NewFile::give_final_name(bool replace) {
  if (temporary_.empty() && link_to(name_)) return success();
  if (replace) return replace_final_name();
  return temporary_.empty() ? os_failure(errno, kNameStep) : move_to_final_name();
}

Status NewFile::publish(bool replace) {
  if (is_flushed_ && ::fsync(fd_.get()) != 0) return os_failure(errno, "flush the file");
  if (!is_published_) {
    if (const Status status = give_final_name(replace); !status.ok()) return status;
    is_published_ = true;
  }
  if (!is_flushed_) return success();
  // Some file systems do not know how to flush a folder.
  return ::fsync(folder_fd_.get()) == 0 || errno == EINVAL ? success() : os_failure(errno, "flush the folder");
}

std::string absolute_path(const std::string& path) {
  char directory[PATH_MAX];
  if (path.empty() || path.starts_with('/') || ::getcwd(directory, sizeof directory) == nullptr) return path;
  return std::string(directory) + "/" + path;
}

bool is_within_file_size_limit(std::uint64_t size) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= size;
}

namespace {

Status publish_with(const std::string& path, std::string_view content, mode_t mode, bool is_flushed) {
  if (!is_within_file_size_limit(content.size())) return os_failure(EFBIG, "write the file");
  Result<std::unique_ptr<NewFile>> file = NewFile::create(path, {.is_flushed = is_flushed});
  if (!file.ok()) return file.status();
  if (!write_all((*file)->fd(), content)) return os_failure(errno, "write the file");
  // Whatever the umask is.
  if (::fchmod((*file)->fd(), mode) != 0) return os_failure(errno, "set the file's mode");
  const Status status = (*file)->publish(true);
  return (*file)->is_published() ? success() : status;
}

}  // namespace

Status publish_file(const std::string& path, std::string_view content) {
  return publish_with(path, content, 0644, true);
}

Status publish_private_file(const std::string& path, std::string_view content) {
  return publish_with(path, content, 0600, false);
}

}  // namespace penstock::core
