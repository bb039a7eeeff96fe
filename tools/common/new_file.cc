// SPDX-License-Identifier: Apache-2.0

#include "tools/common/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

[[noreturn]] void give_up(const std::string& path, const core::Status& status) {
  throw Failure(path + ": " + core::describe(status));
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
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

void NewFile::publish(bool replace) {
  const core::Status status = file_->publish(replace);
  if (status.ok()) return;
  if (!file_->is_published()) give_up(path_, status);
  throw Failure(
      fmt::format("{}: it is whole and in place, but a crash of the machine may take its name away: could not flush "
                  "the folder {}: {}; see the kernel's log",
                  path_, folder_of(path_), std::strerror(status.code)));
}

}  // namespace penstock::tools
