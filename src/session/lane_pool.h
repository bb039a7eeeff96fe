// SPDX-License-Identifier: Apache-2.0

// Lanes of one path to one device, lent to whoever has a request: the caller's thread or a worker. Lanes are opened
// when they are first needed, within the memory a device may have. Borrowing takes no lock; a thread tends to get
// the lane back that it had before.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "path/path.h"

namespace penstock::core {

// Who keeps lanes open for later, and can do without them.
class LaneHolder {
 public:
  virtual ~LaneHolder() = default;
  virtual void close_idle_lanes() = 0;
};

// Pinned bytes that the lanes of one device may take, and take. Thread-safe; outlives its holders.
class RingBudget {
 public:
  explicit RingBudget(std::uint64_t limit) : limit_(limit) {}
  bool reserve(std::uint64_t bytes);
  // Where there is no room, every holder but the caller closes idle lanes: those of contexts that are gone, of a path
  // not used now.
  bool reserve_or_reclaim(std::uint64_t bytes, const LaneHolder* caller = nullptr);
  void add(LaneHolder* holder);
  void remove(LaneHolder* holder);
  void give_back(std::uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  const std::uint64_t limit_;
  std::atomic<std::uint64_t> used_{0};
  std::mutex holders_mutex_;
  std::vector<LaneHolder*> holders_;
};

struct LaneShape {
  unsigned count = 1;       // Lanes.
  unsigned depth = 1;       // Chunks in flight in each.
  std::uint64_t chunk = 0;  // Bytes.
};

// The small lanes (one chunk, the caller's thread) and the large ones (pipelined, workers) of a device, such that
// all of them together fit into ring_bytes.
struct LaneShapes {
  LaneShape small;
  LaneShape large;
};
LaneShapes shape_lanes(std::uint64_t ring_bytes, std::uint64_t chunk_bytes, unsigned workers);

class LanePool final : public LaneHolder {
 public:
  LanePool(Path& path, Device* device, const LaneShape& shape, RingBudget& budget);
  ~LanePool() override;

  // A lane on loan; gives itself back.
  class Loan {
   public:
    Loan() = default;
    Loan(LanePool* pool, unsigned place, Lane* lane) : pool_(pool), place_(place), lane_(lane) {}
    Loan(Loan&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), place_(other.place_), lane_(other.lane_) {}
    Loan& operator=(Loan&&) = delete;
    ~Loan() {
      if (pool_ != nullptr) pool_->take_back(place_);
    }
    explicit operator bool() const { return pool_ != nullptr; }
    Lane& operator*() const { return *lane_; }

   private:
    LanePool* pool_ = nullptr;
    unsigned place_ = 0;
    Lane* lane_ = nullptr;
  };

  // Waits while all lanes are on loan. Fails only when none is open and none can be opened.
  Result<Loan> borrow();
  // Empty when no lane is free, or none can be opened.
  Loan try_borrow();
  const LaneShape& shape() const { return shape_; }
  void close_idle_lanes() override;

 private:
  struct alignas(64) Place {
    std::atomic<bool> busy{false};
    std::atomic<bool> open{false};  // There is a lane. Written by who made `busy` true, as the lane itself.
    std::unique_ptr<Lane> lane;
  };

  LaneOptions lane_options() const { return {device_, shape_.depth, shape_.chunk}; }
  Result<Loan> borrow_waiting();
  bool claim(bool open, unsigned& place);
  bool has_open() const;
  Status open(Place& place);
  void close(Place& place);
  void take_back(unsigned place);
  void free(Place& place);  // For whoever waits.

  Path& path_;
  Device* const device_;
  const LaneShape shape_;
  RingBudget& budget_;
  std::vector<Place> places_;
  // Touched only where lanes are short, so that borrowers share no cache line.
  alignas(64) std::atomic<std::uint32_t> waiting_{0};
  std::atomic<std::uint32_t> returns_{0};
};

}  // namespace penstock::core
