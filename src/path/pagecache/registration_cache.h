// SPDX-License-Identifier: Apache-2.0

// Has extents of files registered with a device, so that its DMA engine fetches them out of the page cache by itself,
// and puts bytes there where memory is all the storage there is. Large requests register by themselves, between two
// copies; for small ones the cache's own thread does, which starts with the first extent. Registered bytes never
// exceed the limit: the extent that was used least recently gives way, as do extents when memory is short. The driver
// takes its time to register and to unregister, and is called without the lock of the lists. One thread registers at a
// time; a thread that copies takes no lock at all, and one that lends to a stream none but that of the lists, for a
// moment.
//
// When to register is decided by break-even: an extent is bounced until the savings that its registration would have
// made come to its cost, in time and, by the policy's weight, in CPU; so a program never pays more than about twice the
// best choice in hindsight. Costs are measured as they occur. Reads of less than half an extent that begin where others
// end are taken to go on, to all of an extent: the next one is registered by the cache's thread, where there is room.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "device/device.h"
#include "path/pagecache/cached_file.h"
#include "path/pagecache/registration_costs.h"
#include "path/pagecache/registration_list.h"
#include "path/path.h"
#include "storage/file.h"
#include "storage/page_mapping.h"

namespace penstock::core {

struct RegistrationRules {
  std::uint64_t bytes_max = 0;  // Bytes of files, registered at any one time.
  double cpu_weight = 0.1;      // Seconds of waiting that a CPU second is worth.
  bool at_once = false;         // Whatever it costs.
};

class RegistrationCache {
 public:
  // Between two extents that small requests have registered, by the clock: registering stops threads that copy. Less
  // for requests of 512 KiB and more, which are about throughput (they come as many bytes apart as requests of 64 KiB),
  // and for requests of which many are under way at once.
  static constexpr std::chrono::milliseconds kSmallOrdersApart{16};
  static constexpr std::uint64_t kLooksApart = 1024;  // Requests.
  // A request that meets an extent that waits for its turn waits as well, a millisecond for each.
  static constexpr std::size_t kOrdersMax = 4;

  explicit RegistrationCache(const RegistrationRules& rules, const Clock& time = system_clock());
  ~RegistrationCache();

  // The errno if a process cannot see its own pages.
  int watch_error();
  CachedFile* find_or_make(File& file, Device& device, const CachedFile::Terms& terms);
  CachedFile* find(const File& file, const Device& device) const;

  // Takes note of a request: tells if all of it is registered, or is worth it. Always `no` for small requests, for
  // which the thread registers extents that are worth it.
  enum class Wanted : std::uint8_t { no, yes, all_anew };
  Wanted want(CachedFile& file, const FileRange& range, SubmitMode mode);
  // True where requests of such a file register what they touch, whatever it costs.
  bool at_once(const CachedFile::Terms& terms, Op op) const {
    return rules_.at_once || (op == Op::write && terms.only_by_pages);
  }
  // True if all of the range is registered, in extents whose pages are known to be the file's as long as it stays
  // unchanged.
  static bool is_settled(const CachedFile& file, const FileRange& range);
  // True for one request in many: so that the way of small ones is found out.
  bool is_turn_to_look() const { return now() % kLooksApart == 0; }
  // Has the cache's own thread register them, where they are not, and few wait for it already.
  void order(CachedFile& file, std::uint64_t first, std::uint64_t last);
  // Registers an extent that is not registered, or waits for who does: here and now.
  void register_now(CachedFile& file, std::uint64_t index);
  // True if the range's pages in a held extent were the file's all the while until the stamp was taken. Quick if the
  // file has not changed for long; waits for pages that are being moved within memory.
  bool are_of_file(const CachedFile& file, Extent& extent, std::uint64_t offset, std::uint64_t size,
                   const FileStamp& stamp) const;
  // Where the range, of one extent, is mapped, if the file has all of it, and its pages are the file's. They stay while
  // a request on a stream is under way (Device::unregister_pages). Calls no device.
  std::span<const std::byte> lend(CachedFile& file, const FileRange& range);
  // The extent's pages are not the file's any more.
  void evict(Extent& extent);
  // Unregisters all extents of the file, none of which is in flight. Extents that another thread evicts just then may
  // go a moment later.
  void forget(File& file);
  RegistrationCosts& costs() { return costs_; }

  std::uint64_t now() const { return clock_.load(std::memory_order_relaxed); }
  std::uint64_t registered_bytes() const { return registered_bytes_.load(std::memory_order_relaxed); }
  const RegistrationRules& rules() const { return rules_; }

 private:
  struct Place {
    CachedFile* file = nullptr;
    Extent* extent = nullptr;
    std::uint64_t index = 0;
    bool evicts = false;  // An order: to be evicted, and not registered.
  };
  // The extents of a request that are worth registering.
  struct Missing {
    std::uint64_t first = UINT64_MAX;
    std::uint64_t last = 0;
    bool some_registered = false;
    bool all = true;       // Each is registered, or worth it.
    bool goes_on = false;  // goes_on() says so of the request.
  };

  // The same, without waiting.
  PageWatch::Presence look_at(const CachedFile& file, Extent& extent, std::uint64_t offset, std::uint64_t size,
                              const FileStamp& stamp) const;
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
  bool make_room(DevicePages& device, std::uint64_t bytes) EXCLUDES(mutex_);
  std::unique_ptr<Registration> take_oldest_locked() REQUIRES(mutex_);
  std::unique_ptr<Registration> take_unused_locked(Extent& extent) REQUIRES(mutex_);
  std::unique_ptr<Registration> take_locked(Extent& extent) REQUIRES(mutex_);
  bool unregister(std::unique_ptr<Registration> evicted) EXCLUDES(mutex_);
  void unregister_all(RegistrationList& evicted) EXCLUDES(mutex_);
  void settle(Extent& extent, Extent::State state);
  void drop_locked(const Place& place) REQUIRES(mutex_);

  const RegistrationRules rules_;
  const Clock& time_;
  std::once_flag watch_opened_;
  std::optional<PageWatch> watch_;
  int watch_error_ = 0;
  std::atomic<std::uint64_t> clock_{1};  // Requests.
  std::atomic<std::uint64_t> registered_bytes_{0};
  RegistrationCosts costs_;
  std::atomic<std::uint64_t> small_order_{0};    // By the clock, the last extent that small requests were worth;
  std::atomic<std::int64_t> small_order_ns_{0};  // and by time.

  // One thread registers at a time: two at once take the driver longer, and more of the CPUs. Not taken with the other
  // lock, nor that one with this.
  Mutex driver_turn_;

  Mutex mutex_;
  ConditionVariable arrivals_;
  ConditionVariable put_down_;  // Told when the thread has put down an extent.
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool started_ GUARDED_BY(mutex_) = false;
  pthread_t thread_ GUARDED_BY(mutex_) = {};
  std::deque<Place> orders_ GUARDED_BY(mutex_);
  Place in_progress_ GUARDED_BY(mutex_);
  RegistrationList registered_ GUARDED_BY(mutex_);
  RegistrationList leftovers_ GUARDED_BY(mutex_);  // Could not be unregistered while a stream was held.
  std::vector<std::unique_ptr<CachedFile>> files_ GUARDED_BY(mutex_);
};

}  // namespace penstock::core
