// SPDX-License-Identifier: Apache-2.0

#include "tools/common/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include "tools/common/failure.h"
#include "tools/common/files.h"

namespace penstock::tools {
namespace {

[[noreturn]] void give_up(const std::string& path, const core::Status& status) {
  throw Failure(path + ": " + core::describe(status));
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

mode_t usual_mode() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

const std::string& replaceable(const std::string& path, bool overwrite) {
  if (!overwrite && exists(path)) throw Failure(path + " exists; --overwrite replaces it", kUsage);
  struct stat facts {};
  if (lstat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode) && !S_ISLNK(facts.st_mode)) {
    throw Failure(path + ": it is no regular file, and --overwrite replaces only those; name another file");
  }
  return path;
}

}  // namespace

NewFile::NewFile(const std::string& path, int flags, bool needs_name) : path_(path) {
  core::NewFile::Options options;
  options.flags = flags;
  options.needs_name = needs_name;
  options.watcher = this;
  auto file = core::NewFile::create(path, options);
  if (!file.ok() && file.status().is_errno(EINVAL) && (flags & O_DIRECT) != 0) {
    throw Failure(path + ": its file system does not take O_DIRECT; leave --direct out");
  }
  if (!file.ok()) give_up(path, file.status());
  file_ = std::move(*file);
}

void NewFile::is_gone(const std::string& name) {
  temporary_.remove_if([&](Unfinished& each) {
    if (each.name() != name) return false;
    each.keep();
    return true;
  });
}

void NewFile::publish(bool replace) {
  const core::Status status = file_->publish(replace);
  if (status.ok()) return;
  if (!file_->is_published()) give_up(path_, status);
  throw Failure(
      fmt::format("{}: it is whole and in place, but a crash of the machine may take its name away: could not flush "
                  "the folder {}: {}; see the kernel's log",
                  path_, folder_of(path_), std::strerror(status.code)));
}

TextFile::TextFile(const std::string& path, bool overwrite)
    : file_(replaceable(path, overwrite), 0), overwrite_(overwrite) {}

void TextFile::publish(const std::string& text) {
  write_at(file_.fd(), path(), std::as_bytes(std::span(text)), 0);
  if (fchmod(file_.fd(), usual_mode()) != 0) fail_errno(path(), "set the file's mode");
  file_.publish(overwrite_);
}

void write_file(const std::string& path, const std::string& text, bool overwrite) {
  TextFile(path, overwrite).publish(text);
}

}  // namespace penstock::tools
