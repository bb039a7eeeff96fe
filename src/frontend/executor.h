// SPDX-License-Identifier: Apache-2.0

// Carries out requests whose callers do not wait for them: the entries of batches, and what streams have arrived at.
// Jobs wait in one line, for a few threads that start with the first of them. Small requests of one thread are in
// flight together, through a queue; a larger one is moved like a call of its own, with the workers' help. A thread of
// the caller's may do small reads by itself: lend(). A job that nobody has begun by its deadline ends then, also while
// all threads are busy: from the first deadline on, a thread watches the line.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "session/session.h"

namespace penstock::core {

class Job;
class SubmissionContext;

using TimePoint = std::chrono::steady_clock::time_point;
inline constexpr TimePoint kNoDeadline = TimePoint::max();
inline bool has_passed(TimePoint deadline) {
  return deadline != kNoDeadline && deadline <= std::chrono::steady_clock::now();
}

// A job that came to its end.
struct Ended {
  Job* job = nullptr;
  Outcome outcome;
};

// One request under way. Its owner keeps it alive until finish() or finish_all() was called, or withdraw() said true.
class Job {
 public:
  virtual ~Job() = default;

  RawRequest request;
  TimePoint deadline = kNoDeadline;  // Where it has not begun by then, it ends with timed_out.
  // If not empty: once it is the job's turn, these get in line in its place. It has begun then, and is not finished by
  // the executor.
  std::span<Job* const> parts;
  // The memory of all parts, in their order. Where it can be moved as one, it is, and the executor finishes the job.
  std::span<const MemoryPiece> pieces;

  // On a thread of the executor, or of a caller's, which holds no lock meanwhile. The job may be destroyed in here.
  // Waits for no other job.
  virtual void finish(const Outcome& outcome) = 0;
  // The same for several jobs of one owner at once, this one among them.
  virtual void finish_all(std::span<const Ended> jobs) {
    for (const Ended& each : jobs) each.job->finish(each.outcome);
  }
  // Jobs that say the same may be finished together, and helped with. Null: on its own.
  virtual const void* owner() const { return nullptr; }

  bool is_late() const { return has_passed(deadline); }
  void time_out() { finish({failure(Code::timed_out, transfer_step(request.op)), {}}); }

 private:
  friend class Executor;
  Job* previous_ = nullptr;
  Job* next_ = nullptr;
  bool waiting_ = false;  // In the line; guarded by the executor's mutex.
};

// Whoever was lent a submission context.
class SubmissionContextHolder {
 public:
  virtual ~SubmissionContextHolder() = default;
  // Gives it back: the executor ends. Nobody else uses the holder meanwhile.
  virtual void return_context() = 0;
};

// How the latest small requests of the queue went: the next are likely to go the same way.
enum class Going : std::uint8_t {
  stored,    // Many of a thread's are with storage at once.
  fetched,   // The device fetches them by itself, out of the page cache.
  blocking,  // A thread has one at a time, and what waits stays in the line.
};

class Executor {
 public:
  Executor(Session& session, unsigned threads_max);
  // Carries out what waits and what is under way, then ends. Nobody submits any more.
  ~Executor();

  // From any thread, also from a call-back of the device's driver: takes a lock for a moment and wakes threads, no
  // more. Fails, with nothing of it begun, only where no thread can be had at all.
  Status submit(std::span<Job* const> jobs);
  // True where the job had not begun: then finish() is not called for it.
  bool withdraw(Job& job);

  // For a thread of a caller's that does small reads by itself. Null where none is to be had: they are few, and there
  // are none where every transfer blocks, since that thread does not wait for storage.
  // `usual`: the one that the thread had before, or null. Its memory is in that thread's caches.
  SubmissionContext* lend(SubmissionContextHolder& holder, const SubmissionContext* usual);
  // The threads finish its reads in flight.
  void give_back(SubmissionContext& context, SubmissionContextHolder& holder);
  // As SubmissionContext::begin_reads().
  std::size_t begin_reads(SubmissionContext& context, std::span<Job* const> jobs, bool may_open);
  // Has it begin reads of the owner's that wait in the line. False where it cannot do more of them.
  bool feed(SubmissionContext& context, const void* owner);
  // True if jobs wait there, asked without the lock.
  bool has_line() const { return waiting_.load(std::memory_order_relaxed) > 0; }
  Going going() const { return going_.load(std::memory_order_relaxed); }
  bool are_fetched() const { return going() == Going::fetched; }

  // True if there are CPUs to spare for looking out, for microseconds, before going to sleep, and the policy spends it.
  bool can_look_out() const { return can_spin_; }
  std::chrono::microseconds patience() const;  // For so long, then.

 private:
  static constexpr unsigned kGrabMax = 64;  // Jobs that a thread takes from the line at once.
  static constexpr unsigned kLentMax = 4;   // Runners.

  // The jobs that one thread takes.
  struct Share {
    std::array<Job*, kGrabMax> jobs;
    unsigned count = 0;
    SubmissionContext* left = nullptr;  // To be brought to an end besides.
  };

  Status start_locked() REQUIRES(mutex_);
  bool add_context_locked() REQUIRES(mutex_);
  Status start_watch_locked() REQUIRES(mutex_);
  void append_locked(Job& job) REQUIRES(mutex_);
  void unlink_locked(Job& job) REQUIRES(mutex_);
  void wake_locked() REQUIRES(mutex_);
  bool is_idle_locked() const REQUIRES(mutex_) {
    return waiting_.load(std::memory_order_relaxed) == 0 && left_.empty();
  }
  // Without the lock.
  bool has_something() const { return has_line() || has_left_.load(std::memory_order_relaxed); }
  void sleep_locked() REQUIRES(mutex_);
  void take_locked(Share& share, unsigned most) REQUIRES(mutex_);
  SubmissionContext* take_left_locked() REQUIRES(mutex_);
  SubmissionContext* take_idle_locked(const SubmissionContext* usual) REQUIRES(mutex_);
  SubmissionContext* context_locked(const SubmissionContext* usual) REQUIRES(mutex_);
  void finish_left(SubmissionContext& left, SubmissionContext& own);
  Share take(SubmissionContext*& context, const SubmissionContext* usual);
  void learn(SubmissionContext& context);
  std::uint64_t share_bytes_locked() const REQUIRES(mutex_);  // So much one thread does as fast as two.
  unsigned grab(const SubmissionContext& context) const;
  Share take_for(const void* owner, unsigned most);
  void put_in_line(std::span<Job* const> jobs);
  void carry_out(SubmissionContext& context, Job& job);
  void carry_out(SubmissionContext& context, std::span<Job* const> jobs);
  void loop();
  Job* unlink_late_locked() REQUIRES(mutex_);
  void watch();

  Session& session_;
  const bool queues_;  // Threads have queues of their own.
  const unsigned threads_max_;
  const bool can_spin_;
  std::atomic<Going> going_{Going::stored};
  Mutex mutex_;
  ConditionVariable arrivals_;
  bool can_share_ GUARDED_BY(mutex_) = false;  // Threads have more than one transfer under way.
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<pthread_t> threads_ GUARDED_BY(mutex_);
  Job* first_ GUARDED_BY(mutex_) = nullptr;
  Job* last_ GUARDED_BY(mutex_) = nullptr;
  std::atomic<std::size_t> waiting_{0};                 // Jobs in the line. Written under the lock, looked at without.
  std::uint64_t waiting_bytes_ GUARDED_BY(mutex_) = 0;  // Their bytes, at most a few shares of each.
  unsigned asleep_ GUARDED_BY(mutex_) = 0;              // Threads,
  unsigned called_ GUARDED_BY(mutex_) = 0;              // and those of them that were woken and have not come yet.
  // At any time one for each thread, besides those that are away.
  std::vector<std::unique_ptr<SubmissionContext>> contexts_ GUARDED_BY(mutex_);
  std::vector<SubmissionContext*> idle_
      GUARDED_BY(mutex_);  // Of these; the latest used at the end, as its queue is open.
  std::vector<SubmissionContext*> left_ GUARDED_BY(mutex_);  // With requests in flight that nobody looks after.
  std::atomic<bool> has_left_{false};
  std::vector<SubmissionContextHolder*> holders_ GUARDED_BY(mutex_);
  unsigned away_ GUARDED_BY(mutex_) = 0;  // Lent, or left and no thread's own yet.
  pthread_t watcher_ GUARDED_BY(mutex_) = {};
  bool is_watched_ GUARDED_BY(mutex_) = false;
  TimePoint next_deadline_ GUARDED_BY(mutex_) = kNoDeadline;  // No job in the line has an earlier one.
  ConditionVariable deadlines_;                               // next_deadline_ has changed.
};

}  // namespace penstock::core
