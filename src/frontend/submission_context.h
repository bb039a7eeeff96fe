// SPDX-License-Identifier: Apache-2.0

// A thread's means to carry jobs out: a queue, opened with the first small job, its requests in flight, and calls for
// everything else. The executor keeps them, and lends them to its threads and to its callers'. Used by one thread at a
// time.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "frontend/executor.h"
#include "frontend/queue.h"

namespace penstock::core {

class SubmissionContext {
 public:
  static constexpr unsigned kDepth = 64;
  // Up to this size a request is worth having in flight beside others; larger ones keep a storage device busy alone.
  static constexpr std::uint64_t kQueuedBytesMax = 128u << 10;
  static bool is_large(const Job& job) {
    return job.request.size > kQueuedBytesMax || job.request.staging != nullptr || !job.parts.empty();
  }

  // True if it needs no thread of its own: a queue begins it without a wait for storage.
  static bool is_small_read(const Job& job) { return job.request.op == Op::read && !is_large(job); }

  // queues: it may have a queue. looks: it looks a little for room.
  SubmissionContext(Session& session, bool queues, bool looks) : session_(session), queues_(queues), looks_(looks) {}

  bool is_idle() const { return in_flight_ == 0; }
  // True if its requests in flight come to no end without this thread, or another one.
  bool waits_for_storage() const { return queue_ != nullptr && queue_->waits_for_storage(); }
  // True if the thread, which has begun a request by a path whose calls wait for storage, is to take no other before
  // that is over: another thread can begin it, and its submitter can cancel it.
  bool is_blocked() const { return in_flight_ > 0 && queue_->latest_blocks(); }
  unsigned room() const { return kDepth - in_flight_; }

  // How the last of those went that came to their end in the queue since this was asked last; nothing where none did.
  std::optional<Going> take_news() { return std::exchange(news_, std::nullopt); }

  // In the queue; or ends it, where it is late. False, and nothing was begun, where there is no queue for it, or that
  // has no room (pinned memory, one device more). Unless `may_open`, there is none but what is open already.
  bool begin(Job& job, bool may_open = true);
  // Begins small reads, in their order, and returns how many; the others have to go another way.
  std::size_t begin_reads(std::span<Job* const> jobs, bool may_open);
  // Moves it like a call of its own. Requests in flight do not wait for it longer than they must.
  void move_now(Job& job);
  // The same for a job in parts, all of them as one. False where that cannot be, or where they are small, and better in
  // flight beside each other and others'.
  bool move_together(Job& job);
  // Finishes what is done, having waited for `least`, or as many as are in flight.
  void reap(unsigned least);

 private:
  bool open_queue();
  bool has_room();
  void finish(std::span<const Ended> ended);

  Session& session_;
  const bool queues_;
  const bool looks_;
  std::unique_ptr<Queue> queue_;
  unsigned in_flight_ = 0;
  std::optional<Going> news_;
  std::array<Ended, kDepth> ended_;  // Not on the stack, which may be a caller's small one.
};

}  // namespace penstock::core
