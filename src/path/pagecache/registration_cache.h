// SPDX-License-Identifier: Apache-2.0

// Registers extents of files with a device, so that its DMA engine can read them from the page cache, and on memory
// file systems also write them. Large requests register their extents themselves, between two copies; for small ones
// the cache's own thread does it, which starts with the first extent. Registered extents give way when they take
// too much room (registrations.h), and when memory is short. The driver is slow to register and unregister, and is
// called without a lock that requests take. One thread registers at a time; a thread that copies takes no lock, and one
// that lends to a stream takes one briefly, if a page is gone.
//
// Break-even decides when to register: an extent is bounced until the savings that its registration would have made
// reach its cost, in time and, by the policy's weight, in CPU; so a program never pays more than about twice the best
// choice in hindsight. Costs are measured as they occur. Reads of less than half an extent that begin where others end
// count as sequential: the cache's thread registers the next extent ahead, if there is room.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "device/device.h"
#include "path/pagecache/cached_file.h"
#include "path/pagecache/extent_watch.h"
#include "path/pagecache/registration_costs.h"
#include "path/pagecache/registrations.h"
#include "path/path.h"
#include "storage/file.h"
#include "storage/page_mapping.h"

namespace penstock::core {

struct RegistrationRules {
  std::uint64_t bytes_max = 0;  // The most file bytes registered at any time.
  double cpu_weight = 0.1;      // How many seconds of waiting one CPU second is worth.
  bool at_once = false;         // Registers at once, whatever it costs.
};

class RegistrationCache {
 public:
  // The least time between two registrations for small requests, since registering blocks threads that copy. Shorter
  // for requests of 512 KiB and more, which need throughput (the interval counts as many bytes as for requests of 64
  // KiB), and if many requests are in flight at once.
  static constexpr std::chrono::milliseconds kSmallOrdersApart{16};
  static constexpr std::uint64_t kLooksApart = 1024;  // Requests.
  // A request that needs an extent in this queue waits, up to a millisecond for each entry.
  static constexpr std::size_t kOrdersMax = 4;

  explicit RegistrationCache(const RegistrationRules& rules, const Clock& time = system_clock());
  ~RegistrationCache();

  // Its error() comes before the first request: without it no page is known to be the file's.
  ExtentWatch& watch() { return watch_; }
  CachedFile* find_or_make(File& file, Device& device, const CachedFile::Terms& terms);
  CachedFile* find(const File& file, const Device& device) const;

  // Records a request: returns whether all of it is registered, or worth registering. Always `no` for small requests,
  // for which the thread registers extents.
  enum class Wanted : std::uint8_t { no, yes, all_anew };
  Wanted want(CachedFile& file, const FileRange& range, SubmitMode mode);
  // True if requests on such a file register their extents whatever it costs.
  bool at_once(const CachedFile::Terms& terms, Op op) const {
    return rules_.at_once || (op == Op::write && terms.only_by_pages);
  }
  // True for one request in many: samples how small requests move.
  bool is_turn_to_look() const { return now() % kLooksApart == 0; }
  // Asks the cache's thread to register these extents, unless they are registered or its queue is full.
  void order(CachedFile& file, std::uint64_t first, std::uint64_t last);
  // Registers the extent on this thread, or waits for the thread that does.
  void register_now(CachedFile& file, std::uint64_t index);
  // The mapped bytes of the range, which must be within one extent, if it is within the file and the pages are the
  // file's. They stay registered while a request on a stream is in flight (Device::unregister_pages). Calls no device.
  std::span<const std::byte> lend(CachedFile& file, const FileRange& range);
  // Evicts an extent whose pages no longer belong to the file.
  void evict(Extent& extent) { registrations_.evict(extent); }
  // Unregisters all extents of the file; none may be in flight. An extent that another thread is evicting may go a
  // moment later.
  void forget(File& file);
  RegistrationCosts& costs() { return costs_; }

  std::uint64_t now() const { return clock_.load(std::memory_order_relaxed); }
  std::uint64_t registered_bytes() const { return registrations_.bytes(); }
  const RegistrationRules& rules() const { return rules_; }

 private:
  struct Place {
    CachedFile* file = nullptr;
    Extent* extent = nullptr;
    std::uint64_t index = 0;
    bool evicts = false;  // The order is to evict, not to register.
  };
  // The extents of a request that are worth registering.
  struct Missing {
    std::uint64_t first = UINT64_MAX;
    std::uint64_t last = 0;
    bool some_registered = false;
    bool all = true;       // Each extent is registered, or worth it.
    bool goes_on = false;  // The result of goes_on() for the request.
  };

  bool is_worth(Extent& extent, std::uint64_t bytes, const FileRange& request, bool small);
  bool find_missing(CachedFile& file, const FileRange& range, std::uint64_t end, bool small, Missing& missing);
  bool goes_on(CachedFile& file, const FileRange& range);
  void order_ahead(CachedFile& file, std::uint64_t index, std::uint64_t file_end);
  bool is_turn_of_small(std::uint64_t size, SubmitMode mode);
  void evict_later(CachedFile& file, std::uint64_t index);
  void start_locked() REQUIRES(mutex_);
  void loop();
  void tidy_up() REQUIRES(mutex_);
  void look_again() REQUIRES(mutex_);
  void fulfil(const Place& place) EXCLUDES(mutex_);
  std::unique_ptr<Registration> register_extent(const Place& place) EXCLUDES(mutex_);
  std::unique_ptr<Registration> register_pages(CachedFile& file, int fd, std::uint64_t begin, std::uint64_t bytes);
  void drop_locked(const Place& place) REQUIRES(mutex_);

  const RegistrationRules rules_;
  const Clock& time_;
  ExtentWatch watch_;
  std::atomic<std::uint64_t> clock_{1};  // Requests.
  RegistrationCosts costs_;
  Registrations registrations_;
  std::atomic<std::uint64_t> small_order_{0};    // The last registration for small requests, by the cache's clock,
  std::atomic<std::int64_t> small_order_ns_{0};  // and in real time.

  // One thread registers at a time: two at once are slower and use more CPU in the driver. Never held together with
  // mutex_.
  Mutex driver_turn_;

  Mutex mutex_;
  ConditionVariable arrivals_;
  ConditionVariable put_down_;  // Signalled when the thread has finished an extent.
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool started_ GUARDED_BY(mutex_) = false;
  pthread_t thread_ GUARDED_BY(mutex_) = {};
  std::deque<Place> orders_ GUARDED_BY(mutex_);
  Place in_progress_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<CachedFile>> files_ GUARDED_BY(mutex_);
};

}  // namespace penstock::core
