// SPDX-License-Identifier: Apache-2.0

// A file's extents, for the registration cache (registration_cache.h): looked up by index without a lock, and held by
// channels while bytes are copied from or to them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "path/pagecache/registration_costs.h"
#include "path/pagecache/registration_list.h"
#include "storage/file.h"

namespace penstock::core {

// A range of a file that is registered or may be.
class Extent {
 public:
  static constexpr std::uint64_t kBytes = RegistrationCosts::kExtentBytes;
  enum class State : std::uint32_t { none, wanted, registered, evicting };
  // The extents that a range of the file lies in, by index.
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };
  static constexpr Range range_of(std::uint64_t offset, std::uint64_t size) {
    return {offset / kBytes, (offset + size - 1) / kBytes};
  }

  State state() const { return state_.load(std::memory_order_acquire); }
  // True if the extent is registered; it then stays so until release().
  bool hold(std::uint64_t now) {
    users_.fetch_add(1);
    if (state_.load() == State::registered) {
      if (used_at_.load(std::memory_order_relaxed) != now) used_at_.store(now, std::memory_order_relaxed);
      return true;
    }
    release();
    return false;
  }
  void release() { users_.fetch_sub(1, std::memory_order_release); }
  void wait_while_wanted() const { state_.wait(State::wanted, std::memory_order_acquire); }
  // Ends the wait.
  void settle(State state) {
    state_.store(state);
    state_.notify_all();
  }
  // The registration is the extent's from now on. No request may hold the extent, which is registered only when
  // Registrations has it.
  void attach(Registration& registration);

  // The part of the file that is registered, and its address. Call them only while the extent is held.
  std::uint64_t begin() const { return registration_->begin; }
  std::uint64_t end() const { return begin() + registration_->mapping.size(); }
  std::byte* at(std::uint64_t file_offset) const { return registration_->mapping.data() + (file_offset - begin()); }
  // True if its pages are known to be the file's while the file's stamp is unchanged. May also be called while the
  // extent is registered and not held.
  bool is_settled() const { return settled_.load(std::memory_order_relaxed) > 0; }
  bool writable() const { return writable_.load(std::memory_order_relaxed); }
  // The nanoseconds that a registration would have saved so far; negative if it could not be registered.
  std::int64_t saving() const { return saving_.load(std::memory_order_relaxed); }

 private:
  friend class ExtentWatch;
  friend class RegistrationCache;
  friend class Registrations;

  // Every request writes these, so they are on another cache line than the members that every request reads.
  alignas(64) std::atomic<std::uint32_t> users_{0};
  std::atomic<std::uint64_t> used_at_{0};  // Time by the cache's clock.
  std::atomic<std::int64_t> saving_{0};
  alignas(64) std::atomic<State> state_{State::none};
  std::atomic<bool> writable_{false};
  // The change time of the file (FileStamp) after which all pages were found to be the file's; negative: after which
  // some were missing; 0: not checked yet.
  std::atomic<std::int64_t> settled_{0};
  Registration* registration_ = nullptr;  // Owned by Registrations.
};

// One file's extents for one device.
class CachedFile {
 public:
  struct Terms {
    bool writable = false;       // Extents are also written to.
    bool only_by_pages = false;  // The file can only be written through its mapped pages.
    // How long a change may take after it shows in the file's stamp; 0: stamps do not show changes.
    std::chrono::nanoseconds settles_after{};
  };
  CachedFile(File& file, Device& device, const Terms& terms) : file_(file), device_(device), terms_(terms) {}
  ~CachedFile();
  File& file() const { return file_; }
  Device& device() const { return device_; }
  const Terms& terms() const { return terms_; }
  // Returns null if the index is above the limit, or if the file's table of extents is full.
  Extent* extent(std::uint64_t index);
  // Like extent(), but creates nothing: null also if no extent near it was requested.
  Extent* find(std::uint64_t index) const;
  // True if all of the range is registered at this moment.
  bool is_registered(std::uint64_t offset, std::uint64_t size) const;
  // Visits the extents that were requested.
  template <typename Visit>
  void for_each_extent(Visit visit) const;

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
  static std::uint64_t box_size(unsigned shelf) { return std::min(kFirstShelf << shelf, kBox); }
  // Each shelf is twice as large as the one before, so that small files take little memory; the boxes of a shelf are
  // allocated one by one, so that an extent far into a file takes memory only for its neighbours.
  static constexpr std::uint64_t kFirstShelf = 8;
  static constexpr std::uint64_t kBox = 256;
  static constexpr unsigned kShelves = 20;  // Enough for 256 TiB.
  // Enough for 7 TiB of requested extents; they take 31 MiB.
  static constexpr unsigned kBoxesMax = 1000;

  File& file_;
  Device& device_;
  const Terms terms_;
  CachedFile* next_ = nullptr;  // The same file's extents for another device.
  std::array<std::atomic<Box*>, kShelves> shelves_{};
  std::atomic<unsigned> box_count_{0};
  // The end of the latest read that may be continued (RegistrationCache::goes_on).
  std::atomic<std::uint64_t> read_end_{0};
};

template <typename Visit>
void CachedFile::for_each_extent(Visit visit) const {
  for (unsigned number = 0; number < kShelves; ++number) {
    const Box* const shelf = shelves_[number].load(std::memory_order_acquire);
    for (std::uint64_t box = 0; shelf != nullptr && box < boxes_of(number); ++box) {
      Extent* const extents = shelf[box].load(std::memory_order_acquire);
      for (std::uint64_t at = 0; extents != nullptr && at < box_size(number); ++at) visit(extents[at]);
    }
  }
}

}  // namespace penstock::core
