// SPDX-License-Identifier: Apache-2.0

#include "kv/slab.h"

#include <algorithm>
#include <bit>

#include "base/align.h"
#include "base/invariant.h"
#include "kv/format.h"

namespace penstock::kv {
namespace {

constexpr std::uint64_t kSteps = 64;  // Classes for each power of two: chunks of 2^n bytes have a header, too.

void remove(std::vector<std::uint64_t>& list, std::uint64_t value) {
  list.erase(std::remove(list.begin(), list.end(), value), list.end());
}

}  // namespace

Slab::Slab(std::uint64_t bytes, std::uint64_t extent_bytes)
    : extent_bytes_(extent_bytes), extents_(bytes / extent_bytes) {
  PENSTOCK_INVARIANT(extent_bytes > kHeaderBytes && extent_bytes % kSlotAlign == 0);
  for (std::uint64_t extent = extents_.size(); extent-- > 0;) empty_.push_back(extent);
}

std::uint64_t Slab::slot_bytes_for(std::uint64_t payload_bytes) {
  const std::uint64_t least = core::align_up(kHeaderBytes + payload_bytes, kSlotAlign);
  return core::align_up(least, std::max<std::uint64_t>(kSlotAlign, std::bit_floor(least) / kSteps));
}

std::uint64_t Slab::payload_max() const { return extent_bytes_ - kHeaderBytes; }

// Gives the extent this class, with all slots free.
void Slab::shape(std::uint64_t extent, std::uint64_t slot_bytes) {
  remove(empty_, extent);
  Extent& it = extents_[extent];
  it.slot_bytes = slot_bytes;
  for (std::uint64_t slot = extent_bytes_ / slot_bytes; slot-- > 0;)
    it.free.push_back(static_cast<std::uint32_t>(slot));
  partly_[slot_bytes].push_back(extent);
}

void Slab::use(std::uint64_t extent) {
  Extent& it = extents_[extent];
  ++it.used;
  used_bytes_ += it.slot_bytes;
  if (it.free.empty()) remove(partly_[it.slot_bytes], extent);
}

std::optional<std::uint64_t> Slab::take(std::uint64_t slot_bytes) {
  // The largest class: one slot in a whole extent is enough, also if the class would have more bytes.
  slot_bytes = std::min(slot_bytes, extent_bytes_);
  std::vector<std::uint64_t>& partly = partly_[slot_bytes];
  if (partly.empty() && !empty_.empty()) shape(empty_.back(), slot_bytes);
  if (partly.empty()) return std::nullopt;
  const std::uint64_t extent = partly.back();
  Extent& it = extents_[extent];
  const std::uint64_t slot_offset = extent * extent_bytes_ + it.free.back() * slot_bytes;
  it.free.pop_back();
  use(extent);
  return slot_offset;
}

void Slab::give_back(std::uint64_t slot_offset) {
  const std::uint64_t extent = extent_of(slot_offset);
  Extent& it = extents_.at(extent);
  PENSTOCK_INVARIANT(it.used > 0);
  if (it.free.empty()) partly_[it.slot_bytes].push_back(extent);
  it.free.push_back(static_cast<std::uint32_t>((slot_offset - extent * extent_bytes_) / it.slot_bytes));
  used_bytes_ -= it.slot_bytes;
  if (--it.used > 0) return;
  remove(partly_[it.slot_bytes], extent);
  it = {};
  empty_.push_back(extent);
}

bool Slab::claim(std::uint64_t slot_offset, std::uint64_t slot_bytes) {
  const std::uint64_t extent = extent_of(slot_offset);
  if (extent >= extents_.size() || slot_bytes <= kHeaderBytes || slot_bytes > extent_bytes_) return false;
  if (slot_bytes % kSlotAlign != 0) return false;
  const std::uint64_t within = slot_offset - extent * extent_bytes_;
  if (within % slot_bytes != 0 || within + slot_bytes > extent_bytes_) return false;
  Extent& it = extents_[extent];
  if (it.slot_bytes == 0) shape(extent, slot_bytes);
  if (it.slot_bytes != slot_bytes) return false;
  const auto found = std::find(it.free.begin(), it.free.end(), static_cast<std::uint32_t>(within / slot_bytes));
  if (found == it.free.end()) return false;
  it.free.erase(found);
  use(extent);
  return true;
}

}  // namespace penstock::kv
