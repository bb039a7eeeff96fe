// SPDX-License-Identifier: Apache-2.0

#include "base/new_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <thread>

#include "base/log.h"
#include "base/missing_call.h"
#include "base/whole_transfer.h"

namespace penstock::core {
namespace {

constexpr const char* kNameStep = "name the finished file";
constexpr const char* kRenameStep = "rename the finished file";
constexpr int kRemovalsMax = 100;

bool is_replaceable(int folder_fd, const std::string& name) {
  struct stat there {};
  if (::fstatat(folder_fd, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) return true;
  // The kernel refuses to replace a folder.
  return S_ISREG(there.st_mode) || S_ISLNK(there.st_mode) || S_ISDIR(there.st_mode);
}

bool is_empty(int folder, const char* name) {
  struct stat facts {};
  return ::fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && facts.st_size == 0;
}

}  // namespace

Result<std::unique_ptr<NewFile>> NewFile::create(const std::string& path, const Options& options) {
  std::unique_ptr<NewFile> file(new NewFile(options));
  if (const Status status = file->open(path, options); !status.ok()) return status;
  return file;
}

NewFile::NewFile(const Options& options)
    : watcher_(options.watcher), calls_(options.calls == nullptr ? NameCalls::of_kernel() : *options.calls),
      is_flushed_(options.is_flushed) {}

// Some file systems do not remove an open file, or one renamed by a call that they lack; and file systems in user space
// see the close a moment later. So the name is removed again after closing.
NewFile::~NewFile() {
  if (remove_temporary_name()) return;
  fd_.reset();
  for (int tries = 0; tries < kRemovalsMax && !remove_temporary_name(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!temporary_.empty()) log(LogLevel::error, "could not remove the unfinished file " + temporary_ + "; remove it");
}

Status NewFile::open(const std::string& path, const Options& options) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  name_ = path.substr(slash == std::string::npos ? 0 : slash + 1);
  if (name_.empty()) return os_failure(path.empty() ? ENOENT : EISDIR, "create the file");
  folder_fd_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_fd_.valid()) return os_failure(errno, "open the folder");
  const long longest = ::fpathconf(
      folder_fd_.get(), _PC_NAME_MAX);  // A file without a name gets a temporary one before it replaces another.
  if (longest > 0 && name_.size() > static_cast<std::size_t>(longest))
    return os_failure(ENAMETOOLONG, "create the file");
  if (options.needs_name) return open_named(options);
  if (open_nameless(options)) return success();
  const Status status = open_named(options);
  return status.ok() ? try_rename() : status;
}

bool NewFile::open_nameless(const Options& options) {
  // Giving it a name later goes through /proc, which a container may lack.
  if (::access("/proc/self/fd", X_OK) != 0) return false;
  fd_.reset(calls_.open(folder_fd_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC | options.flags, options.mode));
  return fd_.valid();  // If the failure is lasting, open_named() fails in the same way and reports it.
}

Status NewFile::open_named(const Options& options) {
  if (const Status status = draw_temporary_name(); !status.ok()) return status;
  const int flags = O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | options.flags;
  fd_.reset(calls_.open(folder_fd_.get(), temporary_.c_str(), flags, options.mode));
  if (fd_.valid()) return success();
  const int error = errno;
  if (error == EEXIST) forget_temporary_name();  // The name belongs to another file.
  (void)remove_temporary_name();                 // A file system may create the file and then refuse O_DIRECT.
  return os_failure(error, "create the file");
}

// A file system without nameless files may also refuse a second name: trying it now shows that before all bytes are
// written.
Status NewFile::try_rename() {
  std::string other = temporary_;
  if (const Status status = draw_temporary_name(); !status.ok()) return status;
  const bool is_renamed = calls_.rename(folder_fd_.get(), other.c_str(), temporary_.c_str(), 0) == 0;
  const int error = errno;
  if (!is_renamed) temporary_.swap(other);
  if (watcher_ != nullptr) watcher_->is_gone(other);
  return is_renamed ? success() : os_failure(error, "rename a file in this folder, as publishing it does");
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
  if (watcher_ != nullptr) watcher_->is_gone(temporary_);
  temporary_.clear();
}

bool NewFile::remove_temporary_name() {
  if (temporary_.empty()) return true;
  if (calls_.unlink(folder_fd_.get(), temporary_.c_str()) != 0 && errno != ENOENT) return false;
  forget_temporary_name();
  return true;
}

bool NewFile::link_to(const std::string& name) {
  return calls_.link_open(fd_.get(), folder_fd_.get(), name.c_str()) == 0;
}

Status NewFile::move_to_final_name() {
  const int folder = folder_fd_.get();
  if (calls_.rename(folder, temporary_.c_str(), name_.c_str(), RENAME_NOREPLACE) == 0) {
    forget_temporary_name();
    return success();
  }
  if (!is_missing_in_file_system(errno)) return os_failure(errno, kNameStep);
  // NFS and a few others cannot rename without replacing; a second link has the same effect.
  if (calls_.link(folder, temporary_.c_str(), name_.c_str()) == 0) {
    (void)remove_temporary_name();
    return success();
  }
  return is_missing_in_file_system(errno) ? move_to_held_name() : os_failure(errno, kNameStep);
}

// Mounts of object stores have neither link nor renameat2. Only one of several writers can create the placeholder.
Status NewFile::move_to_held_name() {
  const int folder = folder_fd_.get();
  UniqueFd held(calls_.open(folder, name_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0));
  if (!held.valid()) return os_failure(errno, kNameStep);
  held.reset();
  if (calls_.rename(folder, temporary_.c_str(), name_.c_str(), 0) != 0) {
    const int error = errno;
    // Another program may have replaced the placeholder meanwhile: its file has bytes, and stays.
    if (is_empty(folder, name_.c_str())) (void)calls_.unlink(folder, name_.c_str());
    return os_failure(error, kRenameStep);
  }
  forget_temporary_name();
  return success();
}

// Linux has no call by which a file without a name replaces another file.
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
  if (calls_.rename(folder_fd_.get(), temporary_.c_str(), name_.c_str(), 0) != 0) return os_failure(errno, kRenameStep);
  forget_temporary_name();
  return success();
}

Status NewFile::give_final_name(bool replace) {
  if (temporary_.empty() && link_to(name_)) return success();
  if (replace) return replace_final_name();
  return temporary_.empty() ? os_failure(errno, kNameStep) : move_to_final_name();
}

Status NewFile::publish(bool replace) {
  if (is_flushed_ && flushed_.ok() && calls_.flush(fd_.get()) != 0) flushed_ = os_failure(errno, "flush the file");
  if (!flushed_.ok()) return flushed_;
  if (!is_published_) {
    if (const Status status = give_final_name(replace); !status.ok()) return status;
    is_published_ = true;
  }
  return is_flushed_ ? flush_folder(folder_fd_.get(), calls_) : success();
}

Status flush_folder(int folder_fd, NameCalls& calls) {
  return calls.flush(folder_fd) == 0 || errno == EINVAL ? success() : os_failure(errno, "flush the folder");
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
  const Status written = write_all((*file)->fd(), std::as_bytes(std::span(content)), 0, "write the file");
  if (!written.ok()) return written;
  // Sets the mode regardless of the umask.
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
