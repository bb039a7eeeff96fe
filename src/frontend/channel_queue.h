// SPDX-License-Identifier: Apache-2.0

// Many requests in flight from one thread, over channels of its own: a benchmark's depth, and what the executor's
// threads use. submit() moves the chunks that the page cache can give without waiting; the next reap() hands the others
// to the kernel, those of many requests at once.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "frontend/admission.h"
#include "frontend/queue_full_error.h"
#include "frontend/request_queue.h"
#include "stats/usage.h"

namespace penstock::core {

struct QueueCompletion {
  std::uint64_t cookie = 0;
  Status status;
  Report report;
};

class ChannelQueue final : public ChannelHolder, private Client {
 public:
  static constexpr unsigned kDepthMax = 4096;

  static Result<std::unique_ptr<ChannelQueue>> open(Session& session, unsigned depth, std::uint64_t request_bytes_max);
  ~ChannelQueue() override;  // Waits for requests in flight. The session may have ended before.

  // Fails with `limit` if `depth` requests are not reaped. A request that cannot be started for another reason fails
  // here as well, and is not reaped. Opening a channel and preparing a file may wait for the device: without
  // `may_block` the queue does neither, and fails with `limit`.
  Status submit(const RawRequest& request, std::uint64_t cookie, bool may_block = true);
  using Deadline = RequestQueue::Deadline;
  // Returns the number of completions written: at least `least`, unless fewer are outstanding or the deadline passes.
  unsigned reap(std::span<QueueCompletion> completions, unsigned least, Deadline deadline = std::nullopt);
  // Hands each outcome to take(taker, ...), which must not call the queue. For callers with little stack.
  using Taker = RequestQueue::Taker;
  unsigned reap(std::size_t room, unsigned least, Deadline deadline, Taker take, void* taker);
  // Waits for all requests in flight; they are reaped later. Callable on any thread.
  void drain();
  // Before that it goes on with its requests as far as it can without a wait: whoever needs the memory does not depend
  // on the queue's user, who may be waiting for them. Empty while the queue is in use. Callable on any thread.
  IdleChannel take_idle_channel(const BounceBudget& budget) override;
  // True if any request needs a thread to make progress; requests that the device carries out do not.
  bool has_storage_under_way();
  // True if the latest request that it began uses a path whose calls wait for storage. Called on the user's thread.
  bool latest_is_blocking() const { return latest_is_blocking_.load(std::memory_order_relaxed); }
  // True in a forked child.
  bool is_inherited() const { return fork_count() != forks_; }

 private:
  struct Pending {
    std::uint64_t handle = 0;  // The handle of the pinned file.
    std::uint64_t cookie = 0;
    UsageCount usage;
    Flight flight;
  };

  struct OwnChannel {
    Path* path = nullptr;
    Device* device = nullptr;
    std::unique_ptr<Channel> channel;
    BounceBudget* budget = nullptr;
    std::uint64_t bytes = 0;
    bool shall_be_warm = false;          // Warm the channel up as soon as it may wait for the device.
    std::vector<std::uint32_t> waiting;  // The requests with a chunk that could begin if there were room, in order.
    bool is_idle() const { return waiting.empty() && channel->is_idle(); }
  };

  // An unaligned direct write is a head, a middle and a tail.
  static constexpr unsigned kChunksMax = 3;
  static constexpr unsigned kChannelsMax = 8;

  ChannelQueue(Session& session, unsigned depth, std::uint64_t chunk_max, std::uint64_t request_bytes_max);
  File* pin(std::uint64_t handle) REQUIRES(mutex_);
  void unpin(std::uint64_t handle) REQUIRES(mutex_);
  Status submit_with_file(const RawRequest& request, File* file, std::uint64_t cookie, bool may_block) REQUIRES(mutex_);
  bool cut_if_it_fits(Flight& flight) const;
  Result<OwnChannel*> channel_for(const Flight& flight, bool may_block) REQUIRES(mutex_);
  OwnChannel* find_channel(const Path& path, const Device* device) REQUIRES(mutex_);
  Result<OwnChannel*> open_channel(Path& path, Device* device) REQUIRES(mutex_);
  bool reserve(BounceBudget& budget, std::uint64_t bytes) REQUIRES(mutex_);
  void close_idle_locked() REQUIRES(mutex_);
  bool poll(OwnChannel& own, bool wait) REQUIRES(mutex_);
  bool poll_all(bool wait) REQUIRES(mutex_);
  std::pair<OwnChannel*, unsigned> busy_channels() REQUIRES(mutex_);
  bool poll_until(const Deadline& deadline) REQUIRES(mutex_);
  Status check_descriptors(const File& file) REQUIRES(mutex_);
  void begin_chunks(OwnChannel& own, std::uint32_t index) REQUIRES(mutex_);
  void begin_waiting(OwnChannel& own) REQUIRES(mutex_);
  void on_completion(OwnChannel& own, const Completion& completion) REQUIRES(mutex_);
  void complete(std::uint32_t index, bool asks_for_bytes) REQUIRES(mutex_);
  void forget_file(const File& file) override;
  void forget_memory(std::byte* kept) override;
  template <typename IsMeant>
  void drain_if(IsMeant is_meant) REQUIRES(mutex_);
  void stop() override;

  const std::uint32_t forks_ = fork_count();
  const std::uint64_t chunk_max_;
  const std::uint64_t request_bytes_max_;
  Mutex mutex_;  // Needed because another thread may deregister a file; otherwise never contended.
  Session* session_ GUARDED_BY(mutex_);  // Null once the session has ended.
  std::vector<Pending> pending_ GUARDED_BY(mutex_);
  std::vector<std::uint32_t> free_ GUARDED_BY(mutex_);
  QueueFullError full_error_ GUARDED_BY(mutex_);
  std::vector<std::uint32_t> done_ GUARDED_BY(mutex_);
  std::vector<OwnChannel> channels_ GUARDED_BY(mutex_);
  // The file of the latest requests, pinned once for all that are in flight: eight threads that pinned one file for
  // each request would take turns at its counter.
  struct Pinned {
    std::uint64_t handle = 0;
    File* file = nullptr;
    unsigned requests = 0;
  };
  Pinned pinned_ GUARDED_BY(mutex_);
  RouteCache routes_ GUARDED_BY(mutex_);  // For requests since the last reap.
  // The file whose descriptors were checked since the last reap.
  std::uint64_t checked_file_ GUARDED_BY(mutex_) = 0;
  std::uint64_t checked_end_ GUARDED_BY(mutex_) = 0;  // The end of the file at that time; 0: not known.
  std::atomic<bool> latest_is_blocking_{false};
};

}  // namespace penstock::core
