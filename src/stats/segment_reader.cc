// SPDX-License-Identifier: Apache-2.0

#include "stats/segment_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/regular_file.h"
#include "base/whole_transfer.h"
#include "stats/layout.h"

namespace penstock::core {
namespace {

constexpr const char* kStep = "read the statistics";
constexpr std::size_t kSegmentBytesMax = 8 << 20;  // Ten times what this version writes.

// True if all bytes could be read. The kernel copies aligned words as a whole, so a counter that grows meanwhile has
// its old or its new value.
bool read_whole(int fd, std::byte* memory, std::size_t size) {
  const Result<std::size_t> count = read_all(fd, {memory, size}, 0, kStep);
  return count.ok() && *count == size;
}

// The memory that keeping it takes, roughly.
std::uint64_t memory_of(const StatsSnapshot& snapshot) {
  std::uint64_t bytes = sizeof snapshot + snapshot.rows.size() * sizeof(StatsRow);
  for (const StatsHistogram& each : snapshot.histograms) {
    bytes += sizeof each + (each.sizes.size() + each.latencies.size()) * sizeof(std::uint64_t);
  }
  return bytes;
}

// How the kernel names a segment's descriptor.
bool is_name_of_segment(std::string_view target) {
  constexpr std::string_view kBefore = "/memfd:", kName = kStatsName, kBehind = " (deleted)";
  return target.size() == kBefore.size() + kName.size() + kBehind.size() && target.starts_with(kBefore) &&
         target.substr(kBefore.size()).starts_with(kName) && target.ends_with(kBehind);
}

}  // namespace

Descriptor descriptor_of(int folder, const char* name) {
  char target[64];
  const ssize_t size = ::readlinkat(folder, name, target, sizeof target);
  if (size < 0 && (errno == EACCES || errno == EPERM)) return Descriptor::forbidden;
  const bool is_segment = size > 0 && is_name_of_segment({target, static_cast<std::size_t>(size)});
  return is_segment ? Descriptor::segment : Descriptor::other;
}

// Opens the descriptor without blocking: it may be a pipe that only looks like a segment.
Result<SegmentReader::Opened> SegmentReader::open(int folder, const char* name, LookBudget& budget) {
  if (!budget.take(&LookLimits::segments, 1)) return failure(Code::limit, kStep);
  RegularFile file = open_regular_file(folder, name);
  const struct stat& facts = file.facts;
  if (file.error != 0 && facts.st_mode == 0) return os_failure(file.error, kStep);
  if (file.error != 0) return failure(Code::bad_setting, kStep);
  Opened opened{std::move(file.fd)};
  const int seals = ::fcntl(opened.fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return failure(Code::bad_setting, kStep);
  StatsHeader header;
  if (facts.st_size < static_cast<off_t>(sizeof header) || facts.st_size > static_cast<off_t>(kSegmentBytesMax) ||
      !read_whole(opened.fd.get(), reinterpret_cast<std::byte*>(&header), sizeof header)) {
    return failure(Code::bad_setting, kStep);
  }
  if (std::memcmp(header.magic, kStatsMagic, sizeof header.magic) != 0) return failure(Code::bad_setting, kStep);
  if (header.version != kStatsVersion) return failure(Code::unsupported, kStep);
  opened.id = facts.st_ino;
  opened.size = static_cast<std::size_t>(facts.st_size);
  opened.pid = header.pid;
  return opened;
}

Result<StatsSnapshot> SegmentReader::read(const Opened& opened, LookBudget& budget) {
  if (!budget.take(&LookLimits::read_bytes, opened.size)) return failure(Code::limit, kStep);
  if (buffer_ == nullptr) buffer_.reset(new (std::nothrow) Line[kSegmentBytesMax / sizeof(Line)]);
  if (buffer_ == nullptr) return os_failure(ENOMEM, kStep);
  std::byte* const memory = buffer_[0].bytes;
  if (!read_whole(opened.fd.get(), memory, opened.size)) return failure(Code::bad_setting, kStep);
  Result<StatsSnapshot> snapshot = read_segment({memory, opened.size});
  if (!snapshot.ok()) return snapshot;
  if (!budget.take(&LookLimits::kept_bytes, memory_of(*snapshot))) return failure(Code::limit, kStep);
  snapshot->id = opened.id;
  return snapshot;
}

}  // namespace penstock::core
