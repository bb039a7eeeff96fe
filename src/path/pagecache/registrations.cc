// SPDX-License-Identifier: Apache-2.0

#include "path/pagecache/registrations.h"

#include <algorithm>
#include <utility>

namespace penstock::core {
namespace {

using State = Extent::State;

}  // namespace

Registrations::~Registrations() {
  unregister_all(registered_);
  while (const std::unique_ptr<Registration> left = leftovers_.take_oldest()) {
    if (!left->device->unregister_pages(left->mapping.data())) left->mapping.abandon();
  }
}

bool Registrations::reserve(DevicePages& device, std::uint64_t bytes, std::uint64_t now) {
  if (bytes > bytes_max_) return false;
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (this->bytes() + bytes <= bytes_max_) {
        bytes_.fetch_add(bytes, std::memory_order_relaxed);
        return true;
      }
    }
    if (!device.can_unregister_pages()) return false;
    std::unique_ptr<Registration> oldest;
    {
      const MutexLock lock(mutex_);
      oldest = take_oldest_locked(now);
    }
    if (oldest == nullptr || !unregister(std::move(oldest))) return false;
  }
}

void Registrations::add(std::unique_ptr<Registration> registration) {
  Extent& extent = *registration->extent;
  const MutexLock lock(mutex_);
  registered_.insert(std::move(registration));
  extent.settle(State::registered);
}

void Registrations::evict(Extent& extent) {
  std::unique_ptr<Registration> evicted;
  {
    const MutexLock lock(mutex_);
    evicted = take_unused_locked(extent);
  }
  // If another request holds the extent, that request will evict it.
  if (evicted != nullptr) unregister(std::move(evicted));
}

std::unique_ptr<Registration> Registrations::take(Extent& extent) {
  const MutexLock lock(mutex_);
  return extent.state() == State::registered ? take_locked(extent) : nullptr;
}

void Registrations::unregister_all(RegistrationList& taken) {
  while (std::unique_ptr<Registration> each = taken.take_oldest()) unregister(std::move(each));
}

void Registrations::tidy_up(bool memory_is_short, std::uint64_t now) {
  RegistrationList evicted;
  {
    const MutexLock lock(mutex_);
    evicted.take_all(leftovers_);
    const Registration* const first = registered_.oldest();
    const bool must_go = memory_is_short && first != nullptr && first->device->can_unregister_pages();
    for (std::size_t count = must_go ? registered_.size() / 2 + 1 : 0; count > 0; --count) {
      std::unique_ptr<Registration> oldest = take_oldest_locked(now);
      if (oldest == nullptr) break;
      evicted.insert(std::move(oldest));
    }
  }
  unregister_all(evicted);
}

// Returns null if all are in use. A use is recorded only in its extent, so that it takes no lock; the list is updated
// here, as far as it is searched. An extent that is used meanwhile keeps its time from the start of the search, so that
// the search ends.
std::unique_ptr<Registration> Registrations::take_oldest_locked(std::uint64_t now) {
  for (Registration* each = registered_.oldest(); each != nullptr;) {
    Registration* const next = RegistrationList::next(*each);
    const std::uint64_t used_at = std::min(each->extent->used_at_.load(std::memory_order_relaxed), now);
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
std::unique_ptr<Registration> Registrations::take_unused_locked(Extent& extent) {
  if (extent.state() != State::registered) return nullptr;
  extent.state_.store(State::evicting);
  if (extent.users_.load() == 0) return take_locked(extent);
  extent.state_.store(State::registered);
  return nullptr;
}

std::unique_ptr<Registration> Registrations::take_locked(Extent& extent) {
  std::unique_ptr<Registration> taken = registered_.take(*std::exchange(extent.registration_, nullptr));
  extent.state_.store(State::none);
  return taken;
}

// Returns false if the device cannot unregister it yet: its bytes then still count.
bool Registrations::unregister(std::unique_ptr<Registration> taken) {
  if (taken->device->unregister_pages(taken->mapping.data())) {
    cancel(taken->mapping.size());
    return true;
  }
  const MutexLock lock(mutex_);
  leftovers_.insert(std::move(taken));
  return false;
}

}  // namespace penstock::core
