// SPDX-License-Identifier: Apache-2.0

// Channels of one path to one device, lent to whoever has a request: the caller's thread or a worker. Channels are
// opened when they are first needed, within the memory a device may have. Borrowing takes no lock; a thread tends to
// get the channel back that it had before.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "path/path.h"

namespace penstock::core {

// Keeps channels open for later, and can do without them.
class ChannelHolder {
 public:
  virtual ~ChannelHolder() = default;
  virtual void close_idle_channels() = 0;
};

// Pinned bytes that the channels of one device may take, and take. Thread-safe; outlives its holders.
class BounceBudget {
 public:
  explicit BounceBudget(std::uint64_t limit) : limit_(limit) {}
  bool reserve(std::uint64_t bytes);
  // If there is no room, every holder but the caller closes idle channels: the ones of contexts that are gone, and of a
  // path not used now.
  bool reserve_or_reclaim(std::uint64_t bytes, const ChannelHolder* caller = nullptr);
  void add(ChannelHolder* holder);
  void remove(ChannelHolder* holder);
  void give_back(std::uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  const std::uint64_t limit_;
  std::atomic<std::uint64_t> used_{0};
  Mutex holders_mutex_;
  std::vector<ChannelHolder*> holders_ GUARDED_BY(holders_mutex_);
};

struct ChannelShape {
  unsigned count = 1;       // Channels.
  unsigned depth = 1;       // Chunks in flight in each.
  std::uint64_t chunk = 0;  // Bytes.
};

// The small channels (one chunk, the caller's thread) and the large ones (pipelined, workers) of a device, such that
// all of them together fit into bounce_bytes.
struct ChannelShapes {
  ChannelShape small;
  ChannelShape large;
};
ChannelShapes shape_channels(std::uint64_t bounce_bytes, std::uint64_t chunk_bytes, unsigned workers);

class ChannelPool final : public ChannelHolder {
 public:
  // The placement, of pinned memory, lives as long; null: near the device.
  ChannelPool(Path& path, Device* device, const ChannelShape& shape, BounceBudget& budget,
              const Placement* placement = nullptr);
  ~ChannelPool() override;

  // A channel on loan; gives itself back.
  class Loan {
   public:
    Loan() = default;
    Loan(ChannelPool* pool, unsigned place, Channel* channel) : pool_(pool), place_(place), channel_(channel) {}
    Loan(Loan&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), place_(other.place_), channel_(other.channel_) {}
    Loan& operator=(Loan&&) = delete;
    ~Loan() {
      if (pool_ != nullptr) pool_->take_back(place_);
    }
    explicit operator bool() const { return pool_ != nullptr; }
    Channel& operator*() const { return *channel_; }

   private:
    ChannelPool* pool_ = nullptr;
    unsigned place_ = 0;
    Channel* channel_ = nullptr;
  };

  // Waits while all channels are on loan. Fails only when none is open and none can be opened, for want of room within
  // the budget after two seconds.
  Result<Loan> borrow();
  // Empty when no channel is free, or none can be opened.
  Loan try_borrow();
  const ChannelShape& shape() const { return shape_; }
  void close_idle_channels() override;

 private:
  struct alignas(64) Place {
    std::atomic<bool> busy{false};
    std::atomic<bool> open{false};  // There is a channel. Written by who made `busy` true, as the channel itself.
    std::unique_ptr<Channel> channel;
  };

  ChannelOptions channel_options() const { return {device_, shape_.depth, shape_.chunk, false, placement_}; }
  Result<Loan> borrow_waiting();
  bool claim(bool open, unsigned& place);
  bool has_open() const;
  Status open(Place& place);
  void close(Place& place);
  void take_back(unsigned place);
  void free(Place& place);  // For whoever waits.

  Path& path_;
  Device* const device_;
  const ChannelShape shape_;
  BounceBudget& budget_;
  const Placement* const placement_;
  std::vector<Place> places_;
  // Touched only where channels are short, so that borrowers share no cache line.
  alignas(64) std::atomic<std::uint32_t> waiting_{0};
  std::atomic<std::uint32_t> returns_{0};
};

}  // namespace penstock::core
