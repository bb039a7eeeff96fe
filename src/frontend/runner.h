// SPDX-License-Identifier: Apache-2.0

// One thread's part in carrying out the executor's jobs: a queue, opened with the first small job, what is in flight
// there, and calls for everything else. Used by one thread at a time.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "frontend/executor.h"
#include "frontend/queue.h"

namespace penstock::core {

class Runner {
 public:
  static constexpr unsigned kDepth = 64;
  // Up to this size a request is worth having in flight beside others; larger ones keep a storage device busy alone.
  static constexpr std::uint64_t kQueuedBytesMax = 128u << 10;
  static bool is_large(const Job& job) {
    return job.request.size > kQueuedBytesMax || job.request.staging != nullptr || !job.parts.empty();
  }

  // queues: whether it may have one.
  Runner(Session& session, bool queues) : session_(session), queues_(queues) {}

  bool is_idle() const { return in_flight_ == 0; }
  unsigned room() const { return kDepth - in_flight_; }

  // Whether the device has fetched the last of those that came to their end in the queue since this was asked last;
  // nothing where none did.
  std::optional<bool> take_news() { return std::exchange(are_fetched_, std::nullopt); }

  // In the queue; or ends it, where it is late. False, and nothing was begun, where there is no queue for it, or that
  // has no room (pinned memory, one device more).
  bool begin(Job& job);
  // Like a call of its own. What is in flight does not wait for it longer than it must.
  void move_now(Job& job);
  // The same for a job in parts, all of them as one. False where that cannot be, or where they are small, and better in
  // flight beside each other and others'.
  bool move_together(Job& job);
  // Finishes what is done, having waited for `least`, or as many as are in flight.
  void reap(unsigned least);

 private:
  bool open_queue();
  void finish(std::span<const Ended> ended);

  Session& session_;
  const bool queues_;
  std::unique_ptr<Queue> queue_;
  unsigned in_flight_ = 0;
  std::optional<bool> are_fetched_;
  std::array<Ended, kDepth> ended_;  // Not on the stack, which may be a helper's small one.
};

}  // namespace penstock::core
