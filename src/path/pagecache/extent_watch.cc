// SPDX-License-Identifier: Apache-2.0

#include "path/pagecache/extent_watch.h"

#include <utility>

namespace penstock::core {

int ExtentWatch::error() {
  std::call_once(opened_, [this] {
    Result<PageWatch> opened = PageWatch::open();
    if (opened.ok()) pages_.emplace(std::move(*opened));
    else error_ = opened.status().code;
  });
  return error_;
}

ExtentWatch::Presence ExtentWatch::look_at_all(const Extent& extent) const {
  return pages_->look(extent.at(extent.begin()), extent.end() - extent.begin());
}

// Checks all pages of the extent once after each change, when the change must have ended: from then on, removing pages
// changes the stamp.
ExtentWatch::Presence ExtentWatch::look(const CachedFile& file, Extent& extent, std::uint64_t offset,
                                        std::uint64_t size, const FileStamp& stamp) const {
  const std::chrono::nanoseconds after = file.terms().settles_after;
  const std::int64_t change = after.count() != 0 && stamp.is_settled(after) ? stamp.changed.count() : 0;
  const std::int64_t known = extent.settled_.load(std::memory_order_relaxed);
  if (change != 0 && known == change) return Presence::there;
  const Presence presence = pages_->look(extent.at(offset), size);
  if (presence != Presence::there) return presence;
  if (change == 0 && known > 0) extent.settled_.store(0, std::memory_order_relaxed);
  if (change == 0 || known == -change) return Presence::there;
  const Presence all = look_at_all(extent);
  if (all != Presence::moving) extent.settled_.store(all == Presence::there ? change : -change);
  return Presence::there;
}

bool ExtentWatch::are_of_file(const CachedFile& file, Extent& extent, std::uint64_t offset, std::uint64_t size,
                              const FileStamp& stamp) const {
  const Presence presence = look(file, extent, offset, size, stamp);
  if (presence == Presence::moving) return pages_->are_present(extent.at(offset), size);
  return presence == Presence::there;
}

void ExtentWatch::look_again(Extent& extent) const {
  if (look_at_all(extent) == Presence::gone) extent.settled_.store(0, std::memory_order_relaxed);
}

bool ExtentWatch::is_settled(const CachedFile& file, const FileRange& range) {
  const auto [first, last] = Extent::range_of(range.offset, range.size);
  for (std::uint64_t index = first; index <= last; ++index) {
    const Extent* const extent = file.find(index);
    if (extent == nullptr || extent->state() != Extent::State::registered || !extent->is_settled()) return false;
  }
  return true;
}

}  // namespace penstock::core
