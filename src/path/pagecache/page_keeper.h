// SPDX-License-Identifier: Apache-2.0

// Keeps pieces of files registered with a device, so that its DMA engine fetches them out of the page cache by itself,
// and puts bytes there where memory is all the storage there is.
// One thread registers at a time, since drivers do so anyway: of large requests their own, between two copies, of small
// ones the keeper's, which starts with the first piece. What is kept never exceeds the limit: the piece that was used
// least recently gives way, as do pieces when memory is short.
//
// When to register is the question of renting or buying skis. A piece is bounced until what keeping it would have saved
// comes to what registering it costs, in time and, by the policy's weight, in CPU; so nobody ever pays more than about
// twice the best choice in hindsight. Costs are measured as they occur.
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

#include "base/size_class.h"
#include "device/device.h"
#include "path/path.h"
#include "storage/file.h"
#include "storage/page_mapping.h"

namespace penstock::core {

struct KeepRules {
  std::uint64_t bytes_max = 0;  // Of files, kept at once.
  double cpu_weight = 0.1;      // Seconds of waiting that a CPU second is worth.
  bool at_once = false;         // Whatever it costs.
};

// A stretch of a file that is kept or may be.
class KeptPiece {
 public:
  static constexpr std::uint64_t kBytes = std::uint64_t{32} << 20;
  enum class State : std::uint32_t { none, wanted, kept, leaving };
  // Those that a stretch of the file lies in, by index.
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };
  static constexpr Range range_of(std::uint64_t offset, std::uint64_t size) {
    return {offset / kBytes, (offset + size - 1) / kBytes};
  }

  State state() const { return state_.load(std::memory_order_acquire); }
  // True where it is kept; then it stays until release().
  bool hold(std::uint32_t now) {
    users_.fetch_add(1);
    if (state_.load() == State::kept) {
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
  friend class PageKeeper;

  std::atomic<State> state_{State::none};
  std::atomic<std::uint32_t> users_{0};
  std::atomic<std::uint32_t> used_at_{0};  // By the keeper's clock.
  std::atomic<std::int64_t> saving_{0};    // Nanoseconds that keeping it would have saved so far.
  std::uint64_t begin_ = 0;
  std::atomic<bool> writable_{false};
  PageMapping mapping_;
};

// One file's pieces for one device.
class KeptFile {
 public:
  struct Terms {
    bool writable = false;       // Its pieces are to be written to as well,
    bool only_by_pages = false;  // and nothing else can write to the file.
  };
  KeptFile(File& file, Device& device, const Terms& terms) : file_(file), device_(device), terms_(terms) {}
  ~KeptFile();
  File& file() const { return file_; }
  Device& device() const { return device_; }
  const Terms& terms() const { return terms_; }
  // Null far behind what is ever kept, and where too much of the file was asked for already.
  KeptPiece* piece(std::uint64_t index);
  // Null also where nobody has asked for one near it yet.
  KeptPiece* find(std::uint64_t index) const;

 private:
  friend class PageKeeper;
  using Box = std::atomic<KeptPiece*>;
  struct Place {
    unsigned shelf = 0;
    std::uint64_t box = 0;
    std::uint64_t at = 0;
  };
  static Place place_of(std::uint64_t index);
  static std::uint64_t boxes_of(unsigned shelf);
  // Each shelf has twice the room of the one before it, so that little files take little memory; and a shelf's boxes
  // are made one by one, so that a piece far out in a file takes no more than its neighbours.
  static constexpr std::uint64_t kFirstShelf = 8;
  static constexpr std::uint64_t kBox = 256;
  static constexpr unsigned kShelves = 20;     // For 256 TiB,
  static constexpr unsigned kBoxesMax = 2048;  // of which 16 may have been asked for, at 28 MiB for the boxes.

  File& file_;
  Device& device_;
  const Terms terms_;
  KeptFile* next_ = nullptr;  // The same file's, for another device.
  std::array<std::atomic<Box*>, kShelves> shelves_{};
  std::atomic<unsigned> box_count_{0};
};

class PageKeeper {
 public:
  PageKeeper(Storage& storage, const KeepRules& rules);
  ~PageKeeper();

  // Where a process cannot see its own pages: the errno.
  int watch_error();
  const PageWatch& watch() const { return *watch_; }
  KeptFile* find_or_make(File& file, Device& device, const KeptFile::Terms& terms);
  KeptFile* find(const File& file, const Device& device) const;

  // Takes note of a request: whether all of it is kept, or is worth bringing. Always `no` for small requests, for which
  // the thread brings what is worth it.
  enum class Wanted : std::uint8_t { no, yes, all_anew };
  Wanted want(KeptFile& file, const Stretch& stretch, bool small);
  // Registers a piece that is not kept, or waits for who does: here and now.
  void bring(KeptFile& file, std::uint64_t index);
  // The piece's pages are not the file's any more.
  void drop(KeptFile& file, KeptPiece& piece);
  // Unregisters all that is kept of the file, of which nothing is in flight.
  void forget(File& file);
  void learn(const Timing& timing);

  std::uint32_t now() { return clock_.load(std::memory_order_relaxed); }
  std::uint64_t kept_bytes() const { return kept_bytes_.load(std::memory_order_relaxed); }
  Storage& storage() const { return storage_; }
  const KeepRules& rules() const { return rules_; }

 private:
  struct Place {
    KeptFile* file = nullptr;
    KeptPiece* piece = nullptr;
    std::uint64_t index = 0;
  };
  struct Leftover {  // Could not be unregistered while a stream was held.
    Device* device = nullptr;
    PageMapping mapping;
  };

  double bounce_cost(const Stretch& request) const;
  std::int64_t saving(std::uint64_t bytes, const Stretch& request, bool small) const;
  std::int64_t premium(std::uint64_t bytes, bool small) const;
  bool is_worth(KeptPiece& piece, std::uint64_t bytes, const Stretch& request, bool small);
  bool at_once(const KeptFile& file, Op op) const;
  bool is_turn_of_small();
  void order(KeptFile& file, std::uint64_t first, std::uint64_t last);
  void start_locked();
  void loop();
  void tidy_up();
  void fulfil(const Place& place);
  Status register_piece(const Place& place);
  bool make_room(std::uint64_t bytes);
  bool evict_oldest();
  bool take_away(const Place& place);
  void unregister(KeptFile& file, KeptPiece& piece);
  void settle(KeptPiece& piece, KeptPiece::State state);

  Storage& storage_;
  const KeepRules rules_;
  std::once_flag watch_opened_;
  std::optional<PageWatch> watch_;
  int watch_error_ = 0;
  std::atomic<std::uint32_t> clock_{1};  // Requests.
  std::atomic<std::uint64_t> kept_bytes_{0};
  // Nanoseconds a mebibyte, measured as it goes.
  std::atomic<std::uint64_t> register_cost_{32'000};                   // At first as on an H200 machine: small folios;
  std::atomic<std::uint64_t> bring_cost_{30'000};                      // the same and the DMA, overlapped;
  std::array<std::atomic<std::uint64_t>, kSizeClasses> bounce_costs_;  // By size_class().
  std::atomic<std::uint32_t> small_order_{0};    // By the clock, the last piece that small requests were worth;
  std::atomic<std::int64_t> small_order_ns_{0};  // and by the steady clock.

  std::mutex registering_;  // Taken before mutex_.
  std::mutex mutex_;
  std::condition_variable arrivals_;
  std::condition_variable rests_;  // Told when the thread has put down a piece.
  bool stopping_ = false;
  bool started_ = false;
  pthread_t thread_{};
  std::deque<Place> orders_;
  Place in_hand_;
  std::vector<Place> kept_;
  std::vector<Leftover> leftovers_;
  std::vector<std::unique_ptr<KeptFile>> files_;
};

}  // namespace penstock::core
