// SPDX-License-Identifier: Apache-2.0

// Chooses the extents of a file that one thread of gdsio visits: requests of one size, or of sizes that grow by a step
// and start again; in order through the thread's share, or anywhere. Pure; equal arguments give equal extents.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tools/common/extents.h"

namespace penstock::tools {

struct IoSizes {
  std::uint64_t smallest = 0;  // More than 0.
  std::uint64_t largest = 0;   // At least `smallest`.
  std::uint64_t step = 0;      // More than 0 if these two differ.
};

struct IoPattern {
  Extent range;  // The range in the file, of more than 0 bytes.
  IoSizes sizes;
  bool is_random = false;
  bool is_unaligned = false;  // Random offsets at any byte, rather than at multiples of the smallest size.
  bool is_endless = false;    // Goes on until the caller stops; else ends when together they have the range's size.
  std::uint64_t seed = 1;
  unsigned thread = 0;
  unsigned threads = 1;
};

class IoExtents final : public ExtentSource {
 public:
  explicit IoExtents(const IoPattern& pattern)
      : pattern_(pattern), begin_(share(pattern.thread)), end_(share(pattern.thread + 1)), at_(begin_),
        left_(end_ - begin_), size_(pattern.sizes.smallest), state_(scramble(scramble(pattern.seed) + pattern.thread)) {
  }

  bool next(Extent& extent) override {
    if (left_ == 0) return false;
    std::uint64_t size = std::min(next_size(), pattern_.range.size);
    if (!pattern_.is_random) size = std::min(size, end_ - at_);
    else if (!pattern_.is_endless) size = std::min(size, left_);
    extent = {pattern_.range.offset + (pattern_.is_random ? draw(pattern_.range.size - size) : step(size)), size};
    if (!pattern_.is_endless) left_ -= size;
    return true;
  }

 private:
  // The start of a thread's share, in whole requests of the largest size.
  std::uint64_t share(unsigned thread) const {
    const Range range{0, pattern_.range.size, pattern_.sizes.largest};
    const auto block = static_cast<unsigned __int128>(range.block_count()) * thread / pattern_.threads;
    return static_cast<std::uint64_t>(std::min<unsigned __int128>(block * pattern_.sizes.largest, pattern_.range.size));
  }
  std::uint64_t next_size() {
    const std::uint64_t size = size_;
    size_ = pattern_.sizes.largest - size >= pattern_.sizes.step ? size + pattern_.sizes.step : pattern_.sizes.smallest;
    return pattern_.sizes.step == 0 ? pattern_.sizes.largest : size;
  }
  // A random number up to `last`.
  std::uint64_t draw(std::uint64_t last) {
    state_ += 0x9e3779b97f4a7c15u;
    const std::uint64_t unit = pattern_.is_unaligned ? 1 : pattern_.sizes.smallest;
    const auto places = static_cast<unsigned __int128>(last / unit) + 1;
    return static_cast<std::uint64_t>(places * scramble(state_) >> 64) * unit;
  }
  std::uint64_t step(std::uint64_t size) {
    const std::uint64_t at = at_;
    at_ = at_ + size == end_ ? begin_ : at_ + size;
    return at;
  }

  IoPattern pattern_;
  std::uint64_t begin_, end_, at_;  // The thread's share, counted from the start of the range.
  std::uint64_t left_;
  std::uint64_t size_;
  std::uint64_t state_;
};

}  // namespace penstock::tools
