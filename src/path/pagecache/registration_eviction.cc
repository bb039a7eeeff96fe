// SPDX-License-Identifier: Apache-2.0

// Checks whether registered pages are still the file's, and unregisters extents that are evicted or no longer the
// file's.
#include <algorithm>
#include <utility>

#include "path/pagecache/registration_cache.h"

namespace penstock::core {
namespace {

using State = Extent::State;
using Presence = ExtentWatch::Presence;

}  // namespace

// Releases the lock meanwhile; the file is not forgotten while it is checked.
void RegistrationCache::look_again() {
  for (std::size_t i = 0; i < files_.size() && !stopping_; ++i) {
    CachedFile& file = *files_[i];
    in_progress_ = {.file = &file};
    {
      const MutexUnlock unlock(mutex_);
      file.for_each_extent([this](Extent& extent) {
        if (!extent.is_settled() || !extent.hold(extent.used_at_.load(std::memory_order_relaxed))) return;
        watch_.look_again(extent);
        extent.release();
      });
    }
    in_progress_ = {};
    put_down_.notify_all();
  }
}

// Pages that belong to the file now may be removed from it before the stream copies them. They then still have the
// bytes of a moment when the request was in flight, since they stay registered. This does not wait for pages that are
// being migrated: staging is available, and the caller holds up others.
std::span<const std::byte> RegistrationCache::lend(CachedFile& file, const FileRange& range) {
  const std::uint64_t index = range.offset / Extent::kBytes;
  Extent* const extent = file.find(index);
  if (extent == nullptr || !extent->hold(now())) return {};
  const Result<FileStamp> stamp = file.file().stamp();
  const bool is_there = stamp.ok() && range.offset + range.size <= std::min(stamp->size, extent->end());
  std::optional<Presence> presence;
  if (is_there) presence = watch_.look(file, *extent, range.offset, range.size, *stamp);
  const std::span<const std::byte> lent(extent->at(range.offset), presence == Presence::there ? range.size : 0);
  extent->release();
  if (presence == Presence::gone) evict_later(file, index);
  return lent;
}

// Reserves the bytes by evicting. If extents cannot be unregistered now, it evicts none.
bool RegistrationCache::make_room(DevicePages& device, std::uint64_t bytes) {
  if (bytes > rules_.bytes_max) return false;
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (registered_bytes() + bytes <= rules_.bytes_max) {
        registered_bytes_.fetch_add(bytes, std::memory_order_relaxed);
        return true;
      }
    }
    if (!device.can_unregister_pages()) return false;
    std::unique_ptr<Registration> oldest;
    {
      const MutexLock lock(mutex_);
      oldest = take_oldest_locked();
    }
    if (oldest == nullptr || !unregister(std::move(oldest))) return false;
  }
}

// Returns null if all are in use. A use is recorded only in its extent, so that it takes no lock; the list is updated
// here, as far as it is searched. An extent that is used meanwhile keeps its time from the start of the search, so that
// the search ends.
std::unique_ptr<Registration> RegistrationCache::take_oldest_locked() {
  const std::uint64_t present = now();
  for (Registration* each = registered_.oldest(); each != nullptr;) {
    Registration* const next = RegistrationList::next(*each);
    const std::uint64_t used_at = std::min(each->extent->used_at_.load(std::memory_order_relaxed), present);
    if (used_at > each->used_at) {
      each->used_at = used_at;
      registered_.insert(registered_.take(*each));
      if (RegistrationList::next(*each) != next) each = next;
      continue;
    }
    if (std::unique_ptr<Registration> taken = take_unused_locked(*each->extent)) return taken;
    each = next;
  }
  return nullptr;
}

// Returns null if it is in use, or not registered. Users of an extent count themselves first, and then check its state.
// This changes the state first, and then checks the count, so one of both sees the other.
std::unique_ptr<Registration> RegistrationCache::take_unused_locked(Extent& extent) {
  if (extent.state() != State::registered) return nullptr;
  extent.state_.store(State::evicting);
  if (extent.users_.load() == 0) return take_locked(extent);
  extent.state_.store(State::registered);
  return nullptr;
}

std::unique_ptr<Registration> RegistrationCache::take_locked(Extent& extent) {
  std::unique_ptr<Registration> taken = registered_.take(*std::exchange(extent.registration_, nullptr));
  extent.state_.store(State::none);
  return taken;
}

// Returns false if the device cannot unregister it yet: its bytes then still count.
bool RegistrationCache::unregister(std::unique_ptr<Registration> evicted) {
  if (evicted->device->unregister_pages(evicted->mapping.data())) {
    registered_bytes_.fetch_sub(evicted->mapping.size(), std::memory_order_relaxed);
    return true;
  }
  const MutexLock lock(mutex_);
  leftovers_.insert(std::move(evicted));
  arrivals_.notify_one();  // Wakes the thread, which tidies up.
  return false;
}

void RegistrationCache::unregister_all(RegistrationList& evicted) {
  while (std::unique_ptr<Registration> each = evicted.take_oldest()) unregister(std::move(each));
}

void RegistrationCache::evict(Extent& extent) {
  std::unique_ptr<Registration> evicted;
  {
    const MutexLock lock(mutex_);
    evicted = take_unused_locked(extent);
  }
  // If another request holds the extent, that request will evict it.
  if (evicted != nullptr) unregister(std::move(evicted));
}

// Leaves it to the cache's thread: a caller of lend() must not call the device.
void RegistrationCache::evict_later(CachedFile& file, std::uint64_t index) {
  const MutexLock lock(mutex_);
  Extent* const extent = file.find(index);
  const auto is_it = [extent](const Place& place) { return place.evicts && place.extent == extent; };
  if (!started_ || stopping_ || std::any_of(orders_.begin(), orders_.end(), is_it)) return;
  orders_.push_back({&file, extent, index, true});
  arrivals_.notify_one();
}

void RegistrationCache::forget(File& file) {
  const auto* const first = reinterpret_cast<CachedFile*>(file.slot(PathId::pagecache).exchange(0));
  if (first == nullptr) return;
  RegistrationList evicted;
  {
    const MutexLock lock(mutex_);
    const auto ours = [&](const Place& place) { return place.file != nullptr && &place.file->file() == &file; };
    std::erase_if(orders_, [&](const Place& place) {
      if (!ours(place)) return false;
      mutex_.assume_held();
      drop_locked(place);
      return true;
    });
    while (ours(in_progress_)) put_down_.wait(mutex_);
    for (const CachedFile* each = first; each != nullptr; each = each->next_) {
      each->for_each_extent([&](Extent& extent) {
        mutex_.assume_held();
        if (extent.state() == State::registered) evicted.insert(take_locked(extent));
      });
    }
    std::erase_if(files_, [&](const std::unique_ptr<CachedFile>& cached) { return &cached->file() == &file; });
  }
  unregister_all(evicted);
}

}  // namespace penstock::core
