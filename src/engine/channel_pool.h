// SPDX-License-Identifier: Apache-2.0

// Channels of one path to one device, lent to the thread that has a request: the caller's or a worker. Channels are
// opened when they are first needed, within the memory a device may have. Borrowing takes no lock; a thread tends to
// get the channel that it had before.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "path/path.h"

namespace penstock::core {

class BounceBudget;

struct IdleChannel {
  std::unique_ptr<Channel> channel;
  std::uint64_t bytes = 0;
};

// Holds open channels for later use.
class ChannelHolder {
 public:
  virtual ~ChannelHolder() = default;
  // Gives away an idle channel whose bytes are of this budget; empty if there is none. Closes none by itself.
  virtual IdleChannel take_idle_channel(const BounceBudget& budget) = 0;
};

// The limit of pinned bytes for all channels of one device, or of host memory, and the bytes in use. Thread-safe;
// outlives its holders.
class BounceBudget {
 public:
  explicit BounceBudget(std::uint64_t limit) : limit_(limit) {}
  bool reserve(std::uint64_t bytes);
  // While there is no room, idle channels of other holders than the caller are closed. Closing may wait for the
  // device, and so for a held stream: meanwhile the budget's lock is free for those who serve the stream.
  bool reserve_or_reclaim(std::uint64_t bytes, const ChannelHolder* caller = nullptr);
  void add(ChannelHolder* holder);
  void remove(ChannelHolder* holder);
  void give_back(std::uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  IdleChannel take_idle_channel(const ChannelHolder* caller);

  const std::uint64_t limit_;
  std::atomic<std::uint64_t> used_{0};
  Mutex holders_mutex_;
  std::vector<ChannelHolder*> holders_ GUARDED_BY(holders_mutex_);
};

struct ChannelShape {
  unsigned count = 1;       // Channels.
  unsigned depth = 1;       // Chunks in flight in each.
  std::uint64_t chunk = 0;  // Bytes.
  // A request that does not fit into one channel is long.
  bool fits(std::uint64_t bytes) const { return bytes <= depth * chunk; }
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
  // `placement` says where pinned memory lies, and must outlive the pool; null: near the device.
  ChannelPool(Path& path, Device* device, const ChannelShape& shape, BounceBudget& budget,
              const Placement* placement = nullptr);
  ~ChannelPool() override;

  // A borrowed channel, which goes back to the pool with this object.
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

  // Waits while all channels are borrowed; a long request does without one of several, so that short ones need not wait
  // for long ones. Fails only if no channel is open and none can be opened, because the budget has had no room for two
  // seconds.
  Result<Loan> borrow(bool is_long = false);
  // Empty if no channel is free and none can be opened.
  Loan try_borrow(bool is_long = false);
  const ChannelShape& shape() const { return shape_; }
  IdleChannel take_idle_channel(const BounceBudget& budget) override;

 private:
  struct alignas(64) Place {
    std::atomic<bool> busy{false};
    // True if there is a channel. Only the thread that set `busy` writes this and the channel.
    std::atomic<bool> open{false};
    std::unique_ptr<Channel> channel;
  };

  ChannelOptions channel_options() const { return {device_, shape_.depth, shape_.chunk, false, placement_}; }
  unsigned places_for(bool is_long) const;
  Result<Loan> borrow_waiting(unsigned places);
  bool claim(bool open, unsigned& place, unsigned places);
  bool has_open(unsigned places) const;
  Status open(Place& place);
  IdleChannel vacate(Place& place);
  void close(Place& place);
  void take_back(unsigned place);
  void free(Place& place);  // Wakes a waiting thread.

  Path& path_;
  Device* const device_;
  const ChannelShape shape_;
  BounceBudget& budget_;
  const Placement* const placement_;
  std::vector<Place> places_;
  // Used only when channels are short, so that borrowers usually share no cache line.
  alignas(64) std::atomic<std::uint32_t> waiting_{0};
  std::atomic<std::uint32_t> returns_{0};
};

}  // namespace penstock::core
