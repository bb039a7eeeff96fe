// SPDX-License-Identifier: Apache-2.0

// Chooses the extents that one thread of a bench visits, and their order, in one file or in several as if they were
// one. Sequential: the thread goes through its own share of the range, from the start, again and again. Random: it
// draws whole blocks uniformly from all of the range. Pure; a draw costs two multiplications and allocates nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "tools/common/content.h"

namespace penstock::tools {

struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::size_t file = 0;  // The file's index, if there are several.
};

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;        // More than 0.
  std::uint64_t block_size = 1;  // More than 0. Only the range's last block may be shorter.

  std::uint64_t block_count() const { return size / block_size + (size % block_size != 0 ? 1 : 0); }
  std::uint64_t full_block_count() const { return size / block_size; }
  Extent block(std::uint64_t index) const {
    const std::uint64_t at = index * block_size;
    return {begin + at, size - at < block_size ? size - at : block_size};
  }
};

// Gives one thread its requests.
class ExtentSource {
 public:
  virtual ~ExtentSource() = default;
  // False when the thread's share is done.
  virtual bool next(Extent& extent) = 0;
};

class Extents final : public ExtentSource {
 public:
  // With `endless`, goes on until the caller stops asking; otherwise all threads together visit as many blocks as the
  // range has.
  Extents(const Range& range, bool is_random, bool endless, unsigned thread, unsigned threads, std::uint64_t seed)
      : range_(range), is_random_(is_random), begin_(share(range.block_count(), thread, threads)),
        end_(share(range.block_count(), thread + 1, threads)), at_(begin_),
        left_(endless && begin_ != end_ ? std::numeric_limits<std::uint64_t>::max() : end_ - begin_),
        drawn_from_(range.full_block_count() > 0 ? range.full_block_count() : 1),
        state_(scramble(scramble(seed) + thread)) {}

  bool next(Extent& extent) override {
    if (left_ == 0) return false;
    --left_;
    extent = range_.block(is_random_ ? draw() : step());
    return true;
  }

 private:
  // Does not overflow as long as threads * block_count fits into 128 bits.
  static std::uint64_t share(std::uint64_t blocks, unsigned thread, unsigned threads) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(blocks) * thread / threads);
  }
  std::uint64_t draw() {
    state_ += 0x9e3779b97f4a7c15u;
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(scramble(state_)) * drawn_from_ >> 64);
  }
  std::uint64_t step() {
    const std::uint64_t index = at_;
    if (++at_ == end_) at_ = begin_;
    return index;
  }

  Range range_;
  bool is_random_;
  std::uint64_t begin_, end_, at_;  // The blocks of this thread's share, and the next one to visit.
  std::uint64_t left_;
  std::uint64_t drawn_from_;
  std::uint64_t state_;
};

// Several files, one behind the other. No block spans two files.
class FileBlocks {
 public:
  explicit FileBlocks(std::vector<Range> ranges) : ranges_(std::move(ranges)) {
    for (const Range& range : ranges_) ends_.push_back(count() + range.block_count());
  }
  std::uint64_t count() const { return ends_.empty() ? 0 : ends_.back(); }
  Extent block(std::uint64_t index) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
    const auto file = static_cast<std::size_t>(end - ends_.begin());
    Extent extent = ranges_[file].block(index - (file == 0 ? 0 : ends_[file - 1]));
    extent.file = file;
    return extent;
  }

 private:
  std::vector<Range> ranges_;
  std::vector<std::uint64_t> ends_;  // The index behind each file's last block.
};

class FileExtents final : public ExtentSource {
 public:
  FileExtents(std::shared_ptr<const FileBlocks> blocks, bool is_random, bool endless, unsigned thread, unsigned threads,
              std::uint64_t seed)
      : blocks_(std::move(blocks)), indices_({0, blocks_->count(), 1}, is_random, endless, thread, threads, seed) {}

  bool next(Extent& extent) override {
    Extent index;
    if (!indices_.next(index)) return false;
    extent = blocks_->block(index.offset);
    return true;
  }

 private:
  std::shared_ptr<const FileBlocks> blocks_;
  Extents indices_;  // A block counts as one byte here: an offset is the number of a block.
};

}  // namespace penstock::tools
