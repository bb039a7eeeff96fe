// SPDX-License-Identifier: Apache-2.0

// A request that waits for its turn, or that a thread of the executor's moves: one of a threaded queue, a piece of a
// vectored request, a member's share of a striped one, or a part of a stream's. It becomes a flight when it begins, as
// only then its file is pinned and its path chosen: until then it can be withdrawn, and its file deregistered.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "core/memory.h"
#include "core/report.h"
#include "session/session.h"

namespace penstock::core {

class Job;

using TimePoint = std::chrono::steady_clock::time_point;
inline constexpr TimePoint kNoDeadline = TimePoint::max();
inline bool has_passed(TimePoint deadline) {
  return deadline != kNoDeadline && deadline <= std::chrono::steady_clock::now();
}

// A job that has ended.
struct EndedJob {
  Job* job = nullptr;
  Outcome outcome;
};

// A request for the executor. Its owner keeps it alive until complete() or complete_all() was called, or withdraw()
// returned true.
class Job {
 public:
  // The largest request that is put in flight beside others; a larger one keeps a storage device busy alone.
  static constexpr std::uint64_t kQueuedBytesMax = 128u << 10;

  virtual ~Job() = default;

  RawRequest request;
  TimePoint deadline = kNoDeadline;  // A job that has not begun by this time ends with timed_out.
  // If not empty, these jobs enter the run queue in place of this one when its turn comes. This job has begun then, and
  // the executor does not complete it.
  std::span<Job* const> parts;
  // The memory of all parts, in their order. If it can be moved as one request, it is, and the executor completes the
  // job.
  std::span<const MemoryPiece> pieces;

  // Called on a thread of the executor or of a caller, without any lock. The job may be destroyed in here. Must not
  // wait for another job.
  virtual void complete(const Outcome& outcome) = 0;
  // Completes several jobs of one owner at once; this job is one of them.
  virtual void complete_all(std::span<const EndedJob> jobs) {
    for (const EndedJob& each : jobs) each.job->complete(each.outcome);
  }
  // Jobs with the same owner may be completed together, and the owner's threads may help with them. Null: no owner.
  virtual const void* owner() const { return nullptr; }

  // True if a queue takes it, to have it in flight beside others.
  bool fits_queue() const { return request.size <= kQueuedBytesMax && request.staging == nullptr && parts.empty(); }
  // True if it needs no thread of its own: a queue can begin it without waiting for storage.
  bool is_read_for_queue() const { return request.op == Op::read && fits_queue(); }
  bool is_late() const { return has_passed(deadline); }
  void time_out() { complete({failure(Code::timed_out, transfer_step(request.op)), {}}); }

 private:
  friend class RunQueue;
  Job* previous_ = nullptr;
  Job* next_ = nullptr;
  bool waiting_ = false;  // The job is in the run queue; guarded with it.
};

}  // namespace penstock::core
