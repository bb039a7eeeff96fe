// SPDX-License-Identifier: Apache-2.0

// Carries out jobs for one thread: small jobs through a queue, which is opened with the first of them, and all others
// by calls. The executor owns the contexts, and lends them to its own threads and to its callers'. One thread at a time
// uses a context.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "frontend/channel_queue.h"
#include "frontend/job.h"

namespace penstock::core {

// The mover of the latest small requests of a queue, which is likely to move the next ones.
enum class MovedBy : std::uint8_t {
  storage,  // The drive: a thread has many at storage at once.
  device,   // The device, which fetches them out of the page cache by itself.
  thread,   // A thread of the executor, which has one at a time, while the others stay in the run queue.
};

class JobContext {
 public:
  static constexpr unsigned kDepth = 64;

  // `queues`: it may open a queue. `looks`: it spins for a moment when it waits for room.
  JobContext(Session& session, bool queues, bool looks) : session_(session), queues_(queues), looks_(looks) {}

  bool is_idle() const { return in_flight_ == 0; }
  // True if its requests in flight need a thread to come to their end.
  bool has_storage_under_way() const { return queue_ != nullptr && queue_->has_storage_under_way(); }
  // True if the thread shall begin no other request yet: it has begun one by a path whose calls wait for storage.
  // Another thread can begin the others, and their submitters can cancel them.
  bool is_blocked() const { return in_flight_ > 0 && queue_->latest_is_blocking(); }
  unsigned room() const { return kDepth - in_flight_; }

  // The mover of the latest request that ended in the queue since the last call; nothing if none ended.
  std::optional<MovedBy> take_latest_moved_by() { return std::exchange(latest_moved_by_, std::nullopt); }

  // Begins the job in the queue, or ends it if it is late. False, with nothing begun, if there is no queue for it or
  // the queue has no room (pinned memory, one more device). Without `may_block` it uses only a queue that is open
  // already.
  bool begin(Job& job, bool may_block = true);
  // Begins small reads in their order and returns how many; the others need another way.
  std::size_t begin_reads(std::span<Job* const> jobs, bool may_block);
  // Moves the job like a call of its own. Requests in flight wait no longer for it than they must.
  void move_and_wait(Job& job);
  // Moves a job in parts as one request. False if that is impossible, or if the parts are so small that they are better
  // in flight beside each other and other jobs.
  bool move_together(Job& job);
  // Completes jobs that have ended, after waiting for `least` of them or for as many as are in flight.
  void reap(unsigned least);

 private:
  bool open_queue();
  bool has_room();
  void complete_jobs(std::span<const EndedJob> ended);

  Session& session_;
  const bool queues_;
  const bool looks_;
  std::unique_ptr<ChannelQueue> queue_;
  unsigned in_flight_ = 0;
  std::optional<MovedBy> latest_moved_by_;
  std::array<EndedJob, kDepth> ended_;  // A member, because the stack may be a caller's small one.
};

}  // namespace penstock::core
