// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/target.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>

#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/striped.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

// The session has a descriptor of each file, too, and a second one for direct reads.
constexpr std::size_t kDescriptorsEach = 4;

// A file that is written must be new, empty, or given up by --overwrite.
OpenFile open_for_writing(const BenchSettings& settings, const std::string& path, int direct) {
  if (!exists(path)) {
    if (!settings.create) throw Failure(path + ": there is no such file; --create makes it", kUsage);
    if (settings.size == 0) throw Failure("--create needs --size", kUsage);
    return open_file(path, O_RDWR | O_CREAT | O_EXCL | direct);
  }
  OpenFile file = open_file(path, O_RDWR | O_EXCL | direct);
  if (!settings.overwrite && (file.size > 0 || file.is_block_device())) {
    throw Failure(path + ": it holds data; --overwrite lets bench write over it", kUsage);
  }
  return file;
}

Range range_of(const BenchSettings& settings, const OpenFile& file) {
  const std::uint64_t rest = file.size > settings.offset ? file.size - settings.offset : 0;
  const Range range{settings.offset, settings.size > 0 ? settings.size : rest, settings.block_size};
  if (range.size == 0) {
    throw Failure(fmt::format("{}: nothing to {} at offset {}: the file has {} bytes{}", file.path,
                              settings.is_write() ? "write" : "read", settings.offset, file.size,
                              settings.is_write() ? "; give --size" : ""),
                  kUsage);
  }
  if (range.size > rest && (!settings.is_write() || file.is_block_device())) {
    throw Failure(fmt::format("{}: --offset and --size reach past its end: it has {} bytes", file.path, file.size),
                  kUsage);
  }
  return range;
}

// Allocates the space first, so that a full disk shows before the clock runs. If the file system cannot, writes
// allocate it.
void reserve(const OpenFile& file, const Range& range) {
  if (file.is_block_device()) return;
  const auto begin = static_cast<off_t>(range.begin), size = static_cast<off_t>(range.size);
  if (fallocate(file.fd.get(), 0, begin, size) != 0 && errno != EOPNOTSUPP && errno != EINTR) {
    fail_errno(file.path, "reserve space");
  }
}

void make_room_for_descriptors(std::size_t files) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= files * kDescriptorsEach) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Target open_to_read_all(const BenchSettings& settings, const std::vector<std::string>& paths, int direct) {
  if (settings.size > 0 || settings.offset > 0) {
    throw Failure("--size and --offset need a single FILE; several files are read as a whole", kUsage);
  }
  make_room_for_descriptors(paths.size());
  Target target;
  for (const std::string& path : paths) {
    OpenFile file = open_file(path, O_RDONLY | direct);
    if (file.size == 0) continue;
    target.ranges.push_back({0, file.size, settings.block_size});
    target.files.push_back(std::move(file));
  }
  if (target.files.empty()) throw Failure(settings.label() + ": nothing to read: all files are empty", kUsage);
  return target;
}

Target open_to_write(const BenchSettings& settings, const std::vector<std::string>& paths, int direct) {
  if (paths.size() > 1 || paths != settings.files) {
    throw Failure(settings.label() + ": several files can only be read; name the one to write to", kUsage);
  }
  Target target;
  const bool is_new = !exists(paths[0]);
  target.files.push_back(open_for_writing(settings, paths[0], direct));
  if (is_new) target.created = std::make_unique<Unfinished>(paths[0]);
  target.ranges.push_back(range_of(settings, target.files[0]));
  reserve(target.files[0], target.ranges[0]);
  return target;
}

// Gives the file the size of the object that the manifest stands for.
void as_stripe(const BenchSettings& settings, OpenFile& file) {
  if (settings.drop_cache) {
    throw Failure(file.path + ": --drop-cache does not work on a striped object; name its members, or use --direct",
                  kUsage);
  }
  file.size = stripe_note(open_session({}), file.path).info.size;
}

}  // namespace

std::uint64_t Target::size() const {
  std::uint64_t bytes = 0;
  for (const Range& range : ranges) bytes += range.size;
  return bytes;
}

std::uint64_t Target::block_count() const {
  std::uint64_t blocks = 0;
  for (const Range& range : ranges) blocks += range.block_count();
  return blocks;
}

void Target::renew() const {
  if (ftruncate(files[0].fd.get(), 0) != 0) fail_errno(files[0].path, "empty the file again");
  reserve(files[0], ranges[0]);
}

Target open_target(const BenchSettings& settings) {
  const int direct = settings.direct ? O_DIRECT : 0;
  const std::vector<std::string> paths = files_of(settings.files);
  if (settings.is_write()) return open_to_write(settings, paths, direct);
  if (paths.size() > 1 || paths != settings.files) return open_to_read_all(settings, paths, direct);
  Target target;
  target.files.push_back(open_file(paths[0], O_RDONLY | direct));
  if (is_striped(paths[0])) as_stripe(settings, target.files[0]);
  target.ranges.push_back(range_of(settings, target.files[0]));
  return target;
}

}  // namespace penstock::tools
