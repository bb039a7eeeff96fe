// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/extent_map.h"

#include <algorithm>

#include "base/align.h"
#include "topology/direct_file.h"

namespace penstock::core {
namespace {

// The flags in the order in which they give the cause: DELALLOC comes with UNKNOWN, INLINE with NOT_ALIGNED.
struct FlagCause {
  std::uint32_t flags;
  ExtentCause cause;
};
constexpr FlagCause kFlagCauses[] = {
    {FIEMAP_EXTENT_UNWRITTEN, ExtentCause::unwritten},
    {FIEMAP_EXTENT_DELALLOC, ExtentCause::delayed},
    {FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_DATA_TAIL, ExtentCause::packed},
    {FIEMAP_EXTENT_DATA_ENCRYPTED | FIEMAP_EXTENT_ENCODED, ExtentCause::encoded},
    {FIEMAP_EXTENT_UNKNOWN, ExtentCause::unplaced},
    {FIEMAP_EXTENT_NOT_ALIGNED, ExtentCause::misaligned},
};
// A shared extent is read like any other.
constexpr std::uint32_t kHarmless = FIEMAP_EXTENT_LAST | FIEMAP_EXTENT_MERGED | FIEMAP_EXTENT_SHARED;

}  // namespace

ExtentCause judge_extent(std::uint32_t flags) {
  for (const FlagCause& known : kFlagCauses) {
    if ((flags & known.flags) != 0) return known.cause;
  }
  return (flags & ~kHarmless) == 0 ? ExtentCause::none : ExtentCause::unknown_flag;
}

void ExtentMap::clear(std::uint64_t file_size, std::uint32_t sector, bool is_written) {
  file_size_ = file_size;
  sector_ = sector;
  is_written_ = is_written;
  runs_.clear();
}

ExtentMap::Run ExtentMap::run_of(const fiemap_extent& extent) const {
  Run run{extent.fe_logical, extent.fe_logical + extent.fe_length, extent.fe_physical, judge_extent(extent.fe_flags)};
  const std::uint64_t edges = run.begin | run.end | run.drive;
  if (run.cause == ExtentCause::none && edges % sector_ != 0) run.cause = ExtentCause::misaligned;
  const bool is_shared = (extent.fe_flags & FIEMAP_EXTENT_SHARED) != 0;
  if (run.cause == ExtentCause::none && is_written_ && is_shared) run.cause = ExtentCause::shared;
  return run;
}

ExtentCause ExtentMap::add(const fiemap_extent& extent) {
  const Run run = run_of(extent);
  const std::uint64_t before = runs_.empty() ? 0 : runs_.back().end;
  const bool makes_sense = run.begin < run.end && run.begin >= before && extent.fe_length <= UINT64_MAX - run.drive;
  if (!makes_sense) return ExtentCause::extents_unknown;
  if (!runs_.empty() && runs_.back().goes_on_in(run)) {
    runs_.back().end = run.end;
    return ExtentCause::none;
  }
  if (runs_.size() == kExtentsMax) return ExtentCause::too_many_extents;
  runs_.push_back(run);
  return ExtentCause::none;
}

const ExtentMap::Run* ExtentMap::run_at(std::uint64_t offset) const {
  const auto behind = std::upper_bound(runs_.begin(), runs_.end(), offset,
                                       [](std::uint64_t value, const Run& run) { return value < run.end; });
  return behind != runs_.end() && behind->begin <= offset ? &*behind : nullptr;
}

ExtentCause ExtentMap::range_cause(std::uint64_t offset, std::uint64_t size) const {
  if (size == 0 || (offset | size) % sector_ != 0) return ExtentCause::misaligned;
  const std::uint64_t end = align_up(file_size_, sector_);
  return offset > end || size > end - offset ? ExtentCause::beyond_end : ExtentCause::none;
}

ExtentMap::Found ExtentMap::find(std::uint64_t offset, std::uint64_t size, std::span<DrivePiece> pieces) const {
  if (const ExtentCause cause = range_cause(offset, size); cause != ExtentCause::none) return {0, cause};
  const std::uint64_t end = offset + size;
  unsigned count = 0;
  for (const Run* run = run_at(offset); offset < end; ++run) {
    const bool is_there = run != nullptr && run != runs_.data() + runs_.size() && run->begin <= offset;
    if (!is_there) return {0, ExtentCause::hole};
    if (run->cause != ExtentCause::none) return {0, run->cause};
    if (count == pieces.size()) return {0, ExtentCause::too_scattered};
    const std::uint64_t bytes = std::min(run->end, end) - offset;
    pieces[count++] = {run->drive_at(offset), bytes};
    offset += bytes;
  }
  return {count, ExtentCause::none};
}

// The byte at at_ lies there by the map, too.
bool ExtentComparison::lies_alike(std::uint64_t drive) const {
  const ExtentMap::Run* const run = map_.run_at(at_);
  return run != nullptr && run->cause == ExtentCause::none && run->drive_at(at_) == drive;
}

void ExtentComparison::add(const fiemap_extent& extent) {
  const auto end = std::min<std::uint64_t>(extent.fe_logical + extent.fe_length, end_);
  if (!is_equal_ || end <= at_) return;
  is_equal_ = extent.fe_logical <= at_ && judge_extent(extent.fe_flags) == ExtentCause::none;
  while (is_equal_ && at_ < end) {
    is_equal_ = lies_alike(extent.fe_physical + (at_ - extent.fe_logical));
    if (is_equal_) at_ = std::min(map_.run_at(at_)->end, end);
  }
}

}  // namespace penstock::core
