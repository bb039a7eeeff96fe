// SPDX-License-Identifier: Apache-2.0

#include "tools/common/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <glob.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "base/regular_file.h"
#include "base/whole_transfer.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"

namespace penstock::tools {
namespace {

[[noreturn]] void fail_to_open(const std::string& path, int flags) {
  if (errno == EINVAL && (flags & O_DIRECT) != 0) {
    throw DirectRefused(path + ": its file system does not take O_DIRECT; leave --direct out");
  }
  if (errno == EBUSY && (flags & O_EXCL) != 0) {
    throw Failure(path +
                  ": it is in use (mounted, swapped to, or held by RAID, LVM or another program) and would be written "
                  "over; unmount or release it first");
  }
  fail_errno(path, "open the file");
}

std::uint64_t size_of(const OpenFile& file) {
  if (!file.is_block_device()) return static_cast<std::uint64_t>(file.facts.st_size);
  std::uint64_t size = 0;
  if (ioctl(file.fd.get(), BLKGETSIZE64, &size) != 0) fail_errno(file.path, "ask for the device's size");
  return size;
}

namespace fs = std::filesystem;

// Adds links, but those to files that are among the names: their bytes are there once.
void add_links(std::vector<std::string>& names, std::vector<std::string> links) {
  if (links.empty()) return;
  std::error_code ignored;
  std::set<std::string> seen;
  for (const std::string& name : names) seen.insert(fs::canonical(name, ignored).string());
  std::sort(links.begin(), links.end());
  for (std::string& link : links) {
    if (seen.insert(fs::canonical(link, ignored).string()).second) names.push_back(std::move(link));
  }
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> names, links;
  std::error_code error;
  std::string last = folder;  // Where the walk fails, this is the folder that it tried to enter.
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    last = at->path().string();
    std::error_code ignored;
    if (at->is_regular_file(ignored)) (at->is_symlink(ignored) ? links : names).push_back(at->path().string());
    if (names.size() + links.size() > kFilesMost) throw TooManyFiles(folder, (names.empty() ? links : names).front());
  }
  if (error) throw Failure(fmt::format("{}: cannot be listed: {}", last, error.message()));
  add_links(names, std::move(links));
  if (names.empty()) throw Failure(folder + ": has no regular file");
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> names;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (names.empty()) throw Failure(pattern + ": no file has such a name");
  if (names.size() > kFilesMost) throw TooManyFiles(pattern, names.front());
  return names;
}

}  // namespace

OpenFile open_file(const std::string& path, int flags, mode_t mode) {
  OpenFile file;
  file.path = path;
  file.fd.reset(core::open_without_waiting(AT_FDCWD, path.c_str(), flags, mode));
  if (!file.fd.valid()) fail_to_open(path, flags);
  if (fstat(file.fd.get(), &file.facts) != 0) fail_errno(path, "look at the file");
  if (S_ISDIR(file.facts.st_mode)) fail_errno(path, "open the file", EISDIR);
  if (!S_ISREG(file.facts.st_mode) && !file.is_block_device()) {
    fail(path, penstock_status{PENSTOCK_DOMAIN_PENSTOCK, 0, PENSTOCK_UNSUPPORTED_FILE, "open the file"});
  }
  // io_uring would fail requests with EAGAIN under O_NONBLOCK.
  const int status_flags = fcntl(file.fd.get(), F_GETFL);
  if (status_flags < 0 || fcntl(file.fd.get(), F_SETFL, status_flags & ~O_NONBLOCK) != 0) {
    fail_errno(path, "set the file's flags");
  }
  file.size = size_of(file);
  return file;
}

std::string read_bounded(const std::string& path, std::size_t size_max) {
  const bool is_input = path == "-";
  const OpenFile file = is_input ? OpenFile{} : open_file(path, O_RDONLY);
  const int fd = is_input ? STDIN_FILENO : file.fd.get();
  std::string text;
  constexpr std::size_t kStep = std::size_t{64} << 10;
  while (text.size() <= size_max) {
    const std::size_t had = text.size();
    text.resize(std::min(had + kStep, size_max + 1));
    const ssize_t got = read(fd, text.data() + had, text.size() - had);
    const int error_number = errno;
    text.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error_number == EINTR) continue;
    if (got < 0) fail_errno(is_input ? "standard input" : path, "read the file", error_number);
    if (got == 0) break;
  }
  return text;
}

std::size_t read_at(int fd, const std::string& path, std::span<std::byte> bytes, std::uint64_t offset) {
  constexpr const char* kStep = "read the file";
  const core::Result<std::size_t> read = core::read_all(fd, bytes, offset, kStep);
  if (!read.ok()) fail_errno(path, kStep, read.status().code);
  return *read;
}

void write_at(int fd, const std::string& path, std::span<const std::byte> bytes, std::uint64_t offset) {
  constexpr const char* kStep = "write the file";
  const core::Status written = core::write_all(fd, bytes, offset, kStep);
  if (!written.ok()) fail_errno(path, kStep, written.code);
}

std::uint64_t room_in(const std::string& folder) {
  struct statvfs facts {};
  if (statvfs(folder.c_str(), &facts) != 0) fail_errno(folder, "look for free space");
  return std::uint64_t{facts.f_bavail} * facts.f_frsize;
}

bool exists(const std::string& path) {
  struct stat facts {};
  return lstat(path.c_str(), &facts) == 0;
}

void warm_cache(const std::string& path, std::uint64_t offset, std::uint64_t size) {
  const OpenFile file = open_file(path, O_RDONLY);
  std::vector<char> scratch(std::size_t{1} << 20);
  while (size > 0 && !interrupted()) {
    const std::size_t wanted = std::min<std::uint64_t>(size, scratch.size());
    const ssize_t count = pread(file.fd.get(), scratch.data(), wanted, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(path, "read the file into the page cache");
    if (count == 0) return;
    offset += static_cast<std::uint64_t>(count);
    size -= static_cast<std::uint64_t>(count);
  }
}

void drop_cache(const OpenFile& file) {
  if (fsync(file.fd.get()) != 0 && errno != EROFS && errno != EINVAL) fail_errno(file.path, "flush the file");
  posix_fadvise(file.fd.get(), 0, 0, POSIX_FADV_DONTNEED);
}

TooManyFiles::TooManyFiles(const std::string& word, std::string name)
    : Failure(fmt::format("{}: has more than {} files; name a folder within it", word, kFilesMost), kUsage),
      one(std::move(name)) {}

std::vector<std::string> files_of(const std::vector<std::string>& words) {
  std::vector<std::string> files;
  for (const std::string& word : words) {
    const bool is_pattern = !exists(word) && word.find_first_of("*?[") != std::string::npos;
    for (const std::string& name : is_pattern ? matches_of(word) : std::vector{word}) {
      std::error_code ignored;
      if (!fs::is_directory(name, ignored)) {
        files.push_back(name);
        continue;
      }
      const std::vector<std::string> below = files_below(name);
      files.insert(files.end(), below.begin(), below.end());
    }
  }
  return files;
}

}  // namespace penstock::tools
