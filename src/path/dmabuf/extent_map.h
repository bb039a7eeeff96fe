// SPDX-License-Identifier: Apache-2.0

// An ExtentMap knows where a file's bytes lie on its drive, as FIEMAP told it, and which of them may be read there. It
// asks no kernel itself, so that each flag is tested without a file system.
#pragma once

#include <linux/fiemap.h>

#include <cstdint>
#include <span>
#include <vector>

#include "path/dmabuf/extent_cause.h"

namespace penstock::core {

// A part of a range, in the order of the file.
struct DrivePiece {
  std::uint64_t drive_offset = 0;  // On the drive that the file's st_dev names: a partition has offsets of its own.
  std::uint64_t bytes = 0;
};

// The cause for which an extent with these flags may not be read from the drive; none if it may.
ExtentCause judge_extent(std::uint32_t flags);

class ExtentMap {
 public:
  struct Found {
    unsigned count = 0;  // The number of pieces.
    ExtentCause cause = ExtentCause::none;
  };

  // Forgets all extents. `sector` is the size of the drive's sectors, a power of two. `is_written`: blocks that other
  // files share are unfit.
  void clear(std::uint64_t file_size, std::uint32_t sector, bool is_written = false);
  // Adds the next extent in the order of the file. Fails with extents_unknown and too_many_extents; the map is then of
  // no use.
  ExtentCause add(const fiemap_extent& extent);
  // Writes where the range lies to `pieces`, neighbours on the drive as one. A range of which any byte may not be read
  // has a cause, and no pieces. Allocates nothing; any number of threads may call it.
  Found find(std::uint64_t offset, std::uint64_t size, std::span<DrivePiece> pieces) const;
  std::uint64_t file_size() const { return file_size_; }

 private:
  friend class ExtentComparison;
  struct Run {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t drive = 0;
    ExtentCause cause = ExtentCause::none;

    std::uint64_t drive_at(std::uint64_t offset) const { return drive + (offset - begin); }
    bool goes_on_in(const Run& next) const {
      return cause == ExtentCause::none && next.cause == cause && next.begin == end && next.drive == drive_at(end);
    }
  };

  Run run_of(const fiemap_extent& extent) const;
  ExtentCause range_cause(std::uint64_t offset, std::uint64_t size) const;
  // The run that the offset lies in; null in a hole.
  const Run* run_at(std::uint64_t offset) const;

  std::uint64_t file_size_ = 0;
  std::uint32_t sector_ = 512;
  bool is_written_ = false;
  std::vector<Run> runs_;
};

// Compares a later answer of FIEMAP about a range with the map, however either is cut into extents.
class ExtentComparison {
 public:
  ExtentComparison(const ExtentMap& map, std::uint64_t offset, std::uint64_t size)
      : map_(map), at_(offset), end_(offset + size) {}
  // Adds the next extent in the order of the file.
  void add(const fiemap_extent& extent);
  // True if the whole range was seen, and each byte of it lies where the map says.
  bool is_equal() const { return is_equal_ && at_ == end_; }

 private:
  bool lies_alike(std::uint64_t drive) const;

  const ExtentMap& map_;
  std::uint64_t at_;
  const std::uint64_t end_;
  bool is_equal_ = true;
};

}  // namespace penstock::core
