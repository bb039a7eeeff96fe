// SPDX-License-Identifier: Apache-2.0

// Keeps extents of files registered with a device, so that its DMA engine fetches them out of the page cache by itself,
// and puts bytes there where memory is all the storage there is.
// One thread registers at a time, since drivers do so anyway: of large requests their own, between two copies, of small
// ones the cache's, which starts with the first extent. What is registered never exceeds the limit: the extent that was
// used least recently gives way, as do extents when memory is short.
//
// When to register is decided by break-even: an extent is bounced until what its registration would have saved comes to
// what it costs, in time and, by the policy's weight, in CPU; so nobody ever pays more than about twice the best choice
// in hindsight. Costs are measured as they occur.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "device/device.h"
#include "path/pagecache/registration_costs.h"
#include "path/path.h"
#include "storage/file.h"
#include "storage/page_mapping.h"

namespace penstock::core {

struct RegistrationRules {
  std::uint64_t bytes_max = 0;  // Of files, kept at once.
  double cpu_weight = 0.1;      // Seconds of waiting that a CPU second is worth.
  bool at_once = false;         // Whatever it costs.
};

// A range of a file that is registered or may be.
class Extent {
 public:
  static constexpr std::uint64_t kBytes = RegistrationCosts::kExtentBytes;
  enum class State : std::uint32_t { none, wanted, registered, evicting };
  // Those that a range of the file lies in, by index.
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };
  static constexpr Range range_of(std::uint64_t offset, std::uint64_t size) {
    return {offset / kBytes, (offset + size - 1) / kBytes};
  }

  State state() const { return state_.load(std::memory_order_acquire); }
  // True where it is registered; then it stays until release().
  bool hold(std::uint32_t now) {
    users_.fetch_add(1);
    if (state_.load() == State::registered) {
      used_at_.store(now, std::memory_order_relaxed);
      return true;
    }
    release();
    return false;
  }
  void release() { users_.fetch_sub(1, std::memory_order_release); }
  void wait_while_wanted() const { state_.wait(State::wanted, std::memory_order_acquire); }

  // While it is held: what of the file is there, and where.
  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return begin_ + mapping_.size(); }
  std::byte* at(std::uint64_t file_offset) const { return mapping_.data() + (file_offset - begin_); }
  bool writable() const { return writable_.load(std::memory_order_relaxed); }  // Also of a kept one that is not held.

 private:
  friend class RegistrationCache;

  std::atomic<State> state_{State::none};
  std::atomic<std::uint32_t> users_{0};
  std::atomic<std::uint32_t> used_at_{0};  // By the cache's clock.
  std::atomic<std::int64_t> saving_{0};    // Nanoseconds that keeping it would have saved so far.
  std::uint64_t begin_ = 0;
  std::atomic<bool> writable_{false};
  PageMapping mapping_;
};

// One file's extents for one device.
class CachedFile {
 public:
  struct Terms {
    bool writable = false;       // Its extents are to be written to as well,
    bool only_by_pages = false;  // and nothing else can write to the file.
  };
  CachedFile(File& file, Device& device, const Terms& terms) : file_(file), device_(device), terms_(terms) {}
  ~CachedFile();
  File& file() const { return file_; }
  Device& device() const { return device_; }
  const Terms& terms() const { return terms_; }
  // Null far behind what is ever kept, and where too much of the file was asked for already.
  Extent* extent(std::uint64_t index);
  // Null also where nobody has asked for one near it yet.
  Extent* find(std::uint64_t index) const;

 private:
  friend class RegistrationCache;
  using Box = std::atomic<Extent*>;
  struct Place {
    unsigned shelf = 0;
    std::uint64_t box = 0;
    std::uint64_t at = 0;
  };
  static Place place_of(std::uint64_t index);
  static std::uint64_t boxes_of(unsigned shelf);
  // Each shelf has twice the room of the one before it, so that little files take little memory; and a shelf's boxes
  // are made one by one, so that an extent far out in a file takes no more than its neighbours.
  static constexpr std::uint64_t kFirstShelf = 8;
  static constexpr std::uint64_t kBox = 256;
  static constexpr unsigned kShelves = 20;     // For 256 TiB,
  static constexpr unsigned kBoxesMax = 2048;  // of which 16 may have been asked for, at 28 MiB for the boxes.

  File& file_;
  Device& device_;
  const Terms terms_;
  CachedFile* next_ = nullptr;  // The same file's, for another device.
  std::array<std::atomic<Box*>, kShelves> shelves_{};
  std::atomic<unsigned> box_count_{0};
};

class RegistrationCache {
 public:
  // Between two extents that small requests have registered, by the clock: registering stops whoever copies.
  static constexpr std::chrono::milliseconds kSmallOrdersApart{16};

  RegistrationCache(Storage& storage, const RegistrationRules& rules, const Clock& time = system_clock());
  ~RegistrationCache();

  // Where a process cannot see its own pages: the errno.
  int watch_error();
  const PageWatch& watch() const { return *watch_; }
  CachedFile* find_or_make(File& file, Device& device, const CachedFile::Terms& terms);
  CachedFile* find(const File& file, const Device& device) const;

  // Takes note of a request: whether all of it is registered, or is worth it. Always `no` for small requests, for which
  // the thread registers what is worth it.
  enum class Wanted : std::uint8_t { no, yes, all_anew };
  Wanted want(CachedFile& file, const FileRange& range, bool small);
  // Registers an extent that is not registered, or waits for who does: here and now.
  void register_now(CachedFile& file, std::uint64_t index);
  // The extent's pages are not the file's any more.
  void evict(CachedFile& file, Extent& extent);
  // Unregisters all that is registered of the file, of which nothing is in flight.
  void forget(File& file);
  RegistrationCosts& costs() { return costs_; }

  std::uint32_t now() { return clock_.load(std::memory_order_relaxed); }
  std::uint64_t registered_bytes() const { return registered_bytes_.load(std::memory_order_relaxed); }
  Storage& storage() const { return storage_; }
  const RegistrationRules& rules() const { return rules_; }

 private:
  struct Place {
    CachedFile* file = nullptr;
    Extent* extent = nullptr;
    std::uint64_t index = 0;
  };
  // Of a request's extents: those that are worth registering.
  struct Missing {
    std::uint64_t first = UINT64_MAX;
    std::uint64_t last = 0;
    bool some_registered = false;
    bool all = true;  // Each is registered, or worth it.
  };
  struct Leftover {  // Could not be unregistered while a stream was held.
    Device* device = nullptr;
    PageMapping mapping;
  };

  bool is_worth(Extent& extent, std::uint64_t bytes, const FileRange& request, bool small);
  bool find_missing(CachedFile& file, const FileRange& range, std::uint64_t end, bool small, Missing& missing);
  bool at_once(const CachedFile& file, Op op) const;
  bool is_turn_of_small();
  void order(CachedFile& file, std::uint64_t first, std::uint64_t last);
  void start_locked();
  void loop();
  void tidy_up();
  void fulfil(const Place& place);
  Status register_extent(const Place& place);
  bool make_room(std::uint64_t bytes);
  bool evict_oldest();
  bool try_evict(const Place& place);
  void unregister(CachedFile& file, Extent& extent);
  void settle(Extent& extent, Extent::State state);

  Storage& storage_;
  const RegistrationRules rules_;
  const Clock& time_;
  std::once_flag watch_opened_;
  std::optional<PageWatch> watch_;
  int watch_error_ = 0;
  std::atomic<std::uint32_t> clock_{1};  // Requests.
  std::atomic<std::uint64_t> registered_bytes_{0};
  RegistrationCosts costs_;
  std::atomic<std::uint32_t> small_order_{0};    // By the clock, the last extent that small requests were worth;
  std::atomic<std::int64_t> small_order_ns_{0};  // and by time.

  std::mutex registering_;  // Taken before mutex_.
  std::mutex mutex_;
  std::condition_variable arrivals_;
  std::condition_variable put_down_;  // Told when the thread has put down an extent.
  bool stopping_ = false;
  bool started_ = false;
  pthread_t thread_{};
  std::deque<Place> orders_;
  Place in_progress_;
  std::vector<Place> registered_;
  std::vector<Leftover> leftovers_;
  std::vector<std::unique_ptr<CachedFile>> files_;
};

}  // namespace penstock::core
