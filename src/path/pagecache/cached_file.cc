// SPDX-License-Identifier: Apache-2.0

#include "path/pagecache/cached_file.h"

#include <algorithm>
#include <bit>
#include <new>

namespace penstock::core {
namespace {

// Returns the array in `place`, or makes one of `count`; if threads race, all get the first one's. Null if memory is
// short.
template <typename T>
T* find_or_make(std::atomic<T*>& place, std::uint64_t count) {
  T* known = place.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  T* const fresh = new (std::nothrow) T[count]();
  if (fresh == nullptr || place.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return fresh;
  delete[] fresh;
  return known;
}

}  // namespace

void Extent::attach(Registration& registration) {
  registration.extent = this;
  registration_ = &registration;
  used_at_.store(registration.used_at, std::memory_order_relaxed);
  writable_.store(registration.writable, std::memory_order_relaxed);
  settled_.store(0, std::memory_order_relaxed);
  saving_.store(0, std::memory_order_relaxed);
}

CachedFile::~CachedFile() {
  for (unsigned number = 0; number < kShelves; ++number) {
    Box* const shelf = shelves_[number].load();
    for (std::uint64_t box = 0; shelf != nullptr && box < boxes_of(number); ++box) delete[] shelf[box].load();
    delete[] shelf;
  }
}

std::uint64_t CachedFile::boxes_of(unsigned shelf) { return std::max((kFirstShelf << shelf) / kBox, std::uint64_t{1}); }

CachedFile::Place CachedFile::place_of(std::uint64_t index) {
  const auto shelf = static_cast<unsigned>(std::bit_width(index / kFirstShelf + 1) - 1);
  const std::uint64_t at = index + kFirstShelf - (kFirstShelf << shelf);
  return {shelf, at / kBox, at % kBox};
}

Extent* CachedFile::find(std::uint64_t index) const {
  const auto [number, box, at] = place_of(index);
  if (number >= kShelves) return nullptr;
  const Box* const shelf = shelves_[number].load(std::memory_order_acquire);
  Extent* const extents = shelf == nullptr ? nullptr : shelf[box].load(std::memory_order_acquire);
  return extents == nullptr ? nullptr : &extents[at];
}

Extent* CachedFile::extent(std::uint64_t index) {
  if (Extent* const known = find(index)) return known;
  const auto [number, box, at] = place_of(index);
  if (number >= kShelves || box_count_.load(std::memory_order_relaxed) >= kBoxesMax) return nullptr;
  Box* const shelf = find_or_make(shelves_[number], boxes_of(number));
  if (shelf == nullptr) return nullptr;
  Extent* const extents = find_or_make(shelf[box], box_size(number));
  if (extents == nullptr) return nullptr;
  box_count_.fetch_add(1, std::memory_order_relaxed);
  return &extents[at];
}

bool CachedFile::is_registered(std::uint64_t offset, std::uint64_t size) const {
  const auto [first, last] = Extent::range_of(offset, size);
  for (std::uint64_t index = first; index <= last; ++index) {
    const Extent* const extent = find(index);
    if (extent == nullptr || extent->state() != Extent::State::registered) return false;
  }
  return true;
}

}  // namespace penstock::core
