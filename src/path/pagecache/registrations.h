// SPDX-License-Identifier: Apache-2.0

// The extents of a registration cache that are registered with devices, the bytes that they take, and the registrations
// that a device has not released yet because a stream was held. The bytes never exceed the limit: the least recently
// used extent is evicted. The cache registers, and decides what and when; this says which extent goes, and unregisters.
// Thread-safe. The driver is slow to unregister, and is called without the lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "path/pagecache/cached_file.h"
#include "path/pagecache/registration_list.h"

namespace penstock::core {

class Registrations {
 public:
  explicit Registrations(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}
  // Unregisters all. Memory that a device does not release then stays mapped for good.
  ~Registrations();

  // The bytes that are reserved, registered, or not released yet.
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  // Reserves bytes for a registration on the device, and evicts others for them. False if they cannot be unregistered
  // now, or all are in use. `now` is the time by the clock of Extent::hold().
  bool reserve(DevicePages& device, std::uint64_t bytes, std::uint64_t now);
  // Gives reserved bytes back.
  void cancel(std::uint64_t bytes) { bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Takes the registration of an extent, which is registered from now on, over reserved bytes.
  void add(std::unique_ptr<Registration> registration);
  // Unregisters the extent, unless it is in use, or not registered.
  void evict(Extent& extent);
  // Takes the extent's registration out, for unregister_all(); null if there is none. No request may use the extent.
  // Allocates nothing.
  std::unique_ptr<Registration> take(Extent& extent);
  void unregister_all(RegistrationList& taken);
  // Retries registrations that a device would not release. If memory is short, it tries to evict half of the extents.
  void tidy_up(bool memory_is_short, std::uint64_t now);

 private:
  std::unique_ptr<Registration> take_oldest_locked(std::uint64_t now) REQUIRES(mutex_);
  std::unique_ptr<Registration> take_unused_locked(Extent& extent) REQUIRES(mutex_);
  std::unique_ptr<Registration> take_locked(Extent& extent) REQUIRES(mutex_);
  bool unregister(std::unique_ptr<Registration> taken) EXCLUDES(mutex_);

  const std::uint64_t bytes_max_;
  std::atomic<std::uint64_t> bytes_{0};
  Mutex mutex_;
  RegistrationList registered_ GUARDED_BY(mutex_);
  RegistrationList leftovers_ GUARDED_BY(mutex_);  // Their devices have not released them.
};

}  // namespace penstock::core
