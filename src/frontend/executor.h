// SPDX-License-Identifier: Apache-2.0

// Carries out requests whose callers do not wait for them: requests of threaded queues, and those that a stream has
// reached. Jobs wait in a run queue for a few threads, which start with the first job. A thread has its small requests
// in flight together, through a queue; it moves a larger one like a call of its own, with the workers' help. If all
// threads have long ones (Engine::is_long), one more thread starts, for others. A caller's thread may do small reads by
// itself: lend_context(). A job that has not begun by its deadline ends then, even while all threads are busy: from the
// first deadline on, a separate thread watches the run queue.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "frontend/context_pool.h"
#include "frontend/run_queue.h"
#include "session/session.h"

namespace penstock::core {

class Executor {
 public:
  Executor(Session& session, unsigned threads_max);
  // Carries out all jobs that wait or are under way, then ends. enqueue() must not be called any more.
  ~Executor();

  // Any thread may call it, also in a callback of the device's driver: it holds a lock for a moment only. It fails, and
  // begins no job, if a thread that it needs cannot be started.
  Status enqueue(std::span<Job* const> jobs);
  // Returns true if the job had not begun: then complete() is not called for it.
  bool withdraw(Job& job);

  // Lends a context to a caller's thread that does small reads by itself. Null if there is none: they are few, and
  // there are none while every transfer blocks, because a caller does not wait for storage. `previous` is the context
  // that the thread had before, or null; its memory is in that thread's caches.
  JobContext* lend_context(JobContextHolder& holder, const JobContext* previous);
  // Takes a context back. The executor's threads drain it.
  void take_back_context(JobContext& context, JobContextHolder& holder);
  // Calls JobContext::begin_reads().
  std::size_t begin_reads(JobContext& context, std::span<Job* const> jobs, bool may_block);
  // Begins reads of this owner that wait in the run queue. False if the context can take no more of them.
  bool begin_waiting_reads(JobContext& context, const void* owner);
  // True if jobs wait in the run queue; looks without the lock.
  bool has_waiting() const { return waiting_.load(std::memory_order_relaxed) > 0; }
  MovedBy moved_by() const { return moved_by_.load(std::memory_order_relaxed); }
  bool device_moves_reads() const { return moved_by() == MovedBy::device; }

  // True if the policy allows spinning before a thread sleeps, and there are CPUs to spare for it.
  bool can_spin() const { return can_spin_; }
  std::chrono::microseconds spin_time() const;

 private:
  static constexpr unsigned kGrabMax = 64;  // Jobs that a thread takes from the run queue at once.

  // The jobs that one thread takes.
  struct Share {
    std::array<Job*, kGrabMax> jobs;
    unsigned count = 0;
    bool is_long = false;            // The last of them is.
    JobContext* orphaned = nullptr;  // A context with requests in flight that this thread drains as well.
  };

  void start_locked() REQUIRES(mutex_);
  bool start_thread_locked() REQUIRES(mutex_);
  bool add_context_locked() REQUIRES(mutex_);
  Status start_deadline_thread_locked() REQUIRES(mutex_);
  void append_locked(Job& job) REQUIRES(mutex_);
  void wake_locked() REQUIRES(mutex_);
  bool is_long(const Job& job) const { return session_.engine().is_long(job.request.size); }
  Job* next_locked() const REQUIRES(mutex_);
  bool is_idle_locked() const REQUIRES(mutex_) { return next_locked() == nullptr && contexts_.orphaned_count() == 0; }
  void end_long();
  // Looks without the lock.
  bool has_something() const { return has_waiting() || has_orphaned_.load(std::memory_order_relaxed); }
  void sleep_locked() REQUIRES(mutex_);
  void take_locked(Share& share, unsigned most) REQUIRES(mutex_);
  JobContext* context_locked(const JobContext* previous) REQUIRES(mutex_);
  void drain_orphaned(JobContext& orphaned, JobContext& own);
  Share take_share(JobContext*& context, const JobContext* previous);
  void note_moved_by(JobContext& context);
  std::uint64_t share_bytes_locked() const REQUIRES(mutex_);  // One thread moves this many bytes as fast as two.
  unsigned jobs_most(const JobContext& context) const;
  Share take_reads_of(const void* owner, unsigned most);
  void append(std::span<Job* const> jobs);
  void begin_or_move(JobContext& context, Job& job);
  void begin_or_move(JobContext& context, std::span<Job* const> jobs);
  void loop();
  void watch_deadlines();

  Session& session_;
  const bool queues_;  // Threads have queues of their own.
  const unsigned threads_max_;
  const bool can_spin_;
  std::atomic<MovedBy> moved_by_{MovedBy::storage};
  Mutex mutex_;
  ConditionVariable arrivals_;
  bool can_share_ GUARDED_BY(mutex_) = false;  // A thread can have more than one transfer under way.
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<pthread_t> threads_ GUARDED_BY(mutex_);
  std::atomic<std::size_t> waiting_{0};  // Jobs in the run queue. Written under the lock, read without it.
  RunQueue queue_ GUARDED_BY(mutex_){waiting_};
  unsigned asleep_ GUARDED_BY(mutex_) = 0;  // Threads that sleep.
  unsigned long_ GUARDED_BY(mutex_) = 0;    // Threads that move long requests.
  unsigned called_ GUARDED_BY(mutex_) = 0;  // Threads of these that were woken and have not run yet.
  std::atomic<bool> has_orphaned_{false};   // A context is orphaned. Written under the lock, read without it.
  ContextPool contexts_ GUARDED_BY(mutex_);
  pthread_t deadline_thread_ GUARDED_BY(mutex_) = {};
  bool has_deadline_thread_ GUARDED_BY(mutex_) = false;
  ConditionVariable deadlines_;  // Notified when the run queue's next deadline becomes earlier.
};

}  // namespace penstock::core
