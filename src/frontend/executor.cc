// SPDX-License-Identifier: Apache-2.0

#include "frontend/executor.h"

#include <algorithm>
#include <utility>

#include "base/invariant.h"
#include "base/page_size.h"
#include "base/shortage.h"
#include "base/thread.h"
#include "engine/spin_wait.h"

namespace penstock::core {
namespace {

constexpr unsigned kLookedOverMax = 64;  // How many jobs of others a caller skips in the run queue, at most.

// A queue keeps the memory that it has pinned. All queues together may take half of a device's bounce buffers, so that
// channels of other requests find room. If that is not enough for two threads, the executor opens no queues.
std::uint64_t queues_that_fit(const Config& config) {
  return config.bounce_bytes / 2 / (JobContext::kDepth * (Job::kQueuedBytesMax + page_size()));
}

}  // namespace

Executor::Executor(Session& session, unsigned threads_max)
    : session_(session), queues_(queues_that_fit(session.config()) >= ContextPool::kLentMax + 2),
      threads_max_(queues_ ? std::min<unsigned>(threads_max, static_cast<unsigned>(queues_that_fit(session.config())) -
                                                                 ContextPool::kLentMax)
                           : threads_max),
      can_spin_(threads_spin(session.config())), contexts_(threads_max_ + 1, has_orphaned_) {
  threads_.reserve(threads_max_ + 1);
}

Executor::~Executor() {
  std::vector<JobContextHolder*> holders;
  {
    const MutexLock lock(mutex_);
    holders = contexts_.holders();
  }
  for (JobContextHolder* holder : holders) holder->return_context();
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    arrivals_.notify_all();
    deadlines_.notify_all();
  }
  for (const pthread_t thread : threads_) ::pthread_join(thread, nullptr);
  if (has_deadline_thread_) ::pthread_join(deadline_thread_, nullptr);
}

void Executor::start_locked() {
  // Without io_uring a thread has one transfer under way, so only more threads give more depth.
  can_share_ = queues_ && session_.storage().io_uring_error() == 0;
  while (threads_.size() < threads_max_ && start_thread_locked()) {
  }
}

bool Executor::start_thread_locked() {
  const auto body = [](void* executor) { static_cast<Executor*>(executor)->loop(); };
  pthread_t thread;
  if (contexts_.is_short_of(threads_.size()) && !add_context_locked()) return false;
  if (!start_thread(thread, "penstock-async", body, this)) return false;
  threads_.push_back(thread);
  return true;
}

bool Executor::add_context_locked() {
  std::unique_ptr<JobContext> context(new (std::nothrow) JobContext(session_, queues_, can_spin_));
  if (context == nullptr) return false;
  contexts_.add(std::move(context));
  return true;
}

void Executor::append_locked(Job& job) {
  const TimePoint before = queue_.next_deadline();
  queue_.append(job);
  if (queue_.next_deadline() < before) deadlines_.notify_one();
}

// Wakes a thread for each share of the work, but few at a time: they wake others, so that the caller soon returns.
void Executor::wake_locked() {
  std::uint64_t wanted = queue_.size();
  if (const std::uint64_t share = share_bytes_locked(); share > 0)
    wanted = std::min(wanted, (queue_.bytes() + share - 1) / share);
  wanted += contexts_.orphaned_count();
  for (; called_ < wanted && called_ < asleep_; ++called_) arrivals_.notify_one();
}

Status Executor::enqueue(std::span<Job* const> jobs) {
  const MutexLock lock(mutex_);
  if (threads_.empty()) {
    const auto start = [this] {
      mutex_.assume_held();
      start_locked();
    };
    unless_short_of_memory(start, [] {});  // The threads that could be started serve.
    if (threads_.empty()) return failure(Code::out_of_memory, "start a thread for the request");
  }
  const auto has_deadline = [](const Job* job) { return job->deadline != kNoDeadline; };
  if (!has_deadline_thread_ && std::any_of(jobs.begin(), jobs.end(), has_deadline)) {
    if (const Status status = start_deadline_thread_locked(); !status.ok()) return status;
  }
  for (Job* job : jobs) append_locked(*job);
  wake_locked();
  return success();
}

bool Executor::withdraw(Job& job) {
  const MutexLock lock(mutex_);
  return queue_.withdraw(job);
}

std::chrono::microseconds Executor::spin_time() const { return device_moves_reads() ? kLongSpinTime : kSpinTime; }

void Executor::sleep_locked() {
  if (can_spin_) {
    const MutexUnlock unlock(mutex_);
    (void)spin_wait([this] { return has_something(); }, spin_time());
  }
  while (is_idle_locked() && !stopping_) {
    ++asleep_;
    while (called_ == 0 && !stopping_) arrivals_.wait(mutex_);
    --asleep_;
    if (called_ > 0) --called_;
  }
}

// The first job that may begin now.
Job* Executor::next_locked() const {
  Job* job = queue_.first();
  if (long_ < threads_max_) return job;
  while (job != nullptr && is_long(*job)) job = RunQueue::next(*job);
  return job;
}

void Executor::end_long() {
  const MutexLock lock(mutex_);
  --long_;
}

// Takes a fair share of the run queue, so that all threads take part, but no share too small to be worth a thread.
// Takes at most one job that fits no queue, because a job that was taken can neither be withdrawn nor be carried out by
// another thread.
void Executor::take_locked(Share& share, unsigned most) {
  const std::size_t fair = (queue_.size() + threads_.size() - 1) / threads_.size();
  std::uint64_t bytes = 0;
  for (bool fits = true; share.count < most && fits;) {
    Job* const next = next_locked();
    if (next == nullptr) break;
    Job& job = *next;
    if (share.count >= fair && bytes + RunQueue::bytes_of(job) > share_bytes_locked()) break;
    bytes += RunQueue::bytes_of(job);
    fits = job.fits_queue();
    share.is_long = is_long(job);
    if (share.is_long && ++long_ == threads_.size() && !stopping_) (void)start_thread_locked();
    share.jobs[share.count++] = &job;
    queue_.unlink(job);
  }
  if (!is_idle_locked()) wake_locked();
}

void Executor::note_moved_by(JobContext& context) {
  const std::optional<MovedBy> latest = context.take_latest_moved_by();
  if (!latest || *latest == moved_by()) return;
  const MutexLock lock(mutex_);
  if (can_share_ || *latest != MovedBy::device) moved_by_.store(*latest, std::memory_order_relaxed);
}

// The number of jobs that the thread may take from the run queue at once.
unsigned Executor::jobs_most(const JobContext& context) const {
  if (moved_by() == MovedBy::thread) return context.is_idle() ? 1 : 0;
  return std::min(context.room(), device_moves_reads() ? kGrabMax : kGrabMax / 2);
}

std::uint64_t Executor::share_bytes_locked() const {
  if (!can_share_ || moved_by() == MovedBy::thread) return 0;
  return device_moves_reads() ? RunQueue::kFetchedShareBytes : RunQueue::kShareBytes;
}

// A context for a thread that has something to do; one with requests that nobody works on goes first.
JobContext* Executor::context_locked(const JobContext* previous) {
  if (JobContext* const orphaned = contexts_.adopt()) return orphaned;
  return next_locked() == nullptr ? nullptr : contexts_.take_idle(previous);
}

// A thread has a context as long as the context has requests in flight. The context is null if there is nothing more to
// do.
Executor::Share Executor::take_share(JobContext*& context, const JobContext* previous) {
  Share share;
  if (context != nullptr) note_moved_by(*context);
  const MutexLock lock(mutex_);
  if (context != nullptr && context->is_idle()) contexts_.put_idle(*std::exchange(context, nullptr));
  if (context != nullptr) {
    share.orphaned = contexts_.take_orphaned();
  } else {
    if (is_idle_locked() && !stopping_) sleep_locked();
    context = context_locked(previous);
  }
  if (context != nullptr) take_locked(share, jobs_most(*context));
  return share;
}

// Drains a context that nobody works on, beside the thread's own.
void Executor::drain_orphaned(JobContext& orphaned, JobContext& own) {
  while (!orphaned.is_idle()) {
    orphaned.reap(1);
    own.reap(0);
  }
  note_moved_by(orphaned);
  const MutexLock lock(mutex_);
  contexts_.put_drained(orphaned);
}

void Executor::append(std::span<Job* const> jobs) {
  const MutexLock lock(mutex_);
  for (Job* job : jobs) append_locked(*job);
  wake_locked();
}

// Submits the job to this thread's queue. If the queue does not take it, it is moved synchronously, or, if its parts
// cannot be moved as one request, the parts go into the run queue.
void Executor::begin_or_move(JobContext& context, Job& job) {
  if (context.begin(job)) return;
  if (job.parts.empty()) context.move_and_wait(job);
  else if (!context.move_together(job)) append(job.parts);
}

// Earlier requests only suggest how the next will go: if a request turns out to have to wait for its turn on this
// thread, it is left to the others.
void Executor::begin_or_move(JobContext& context, std::span<Job* const> jobs) {
  while (!jobs.empty() && !context.is_blocked()) {
    begin_or_move(context, *jobs.front());
    jobs = jobs.subspan(1);
  }
  if (!jobs.empty()) append(jobs);
}

void Executor::loop() {
  // The thread carries out small requests of any device, so only a placement that the user set holds for all of them.
  ThreadPlace place(session_.config().placement);
  if (session_.config().placement.is_fixed()) place.stay_near("");
  JobContext* context = nullptr;
  for (const JobContext* previous = nullptr;; previous = context) {
    const Share share = take_share(context, previous);
    if (context == nullptr) return;
    begin_or_move(*context, std::span(share.jobs).first(share.count));
    if (share.is_long) end_long();
    context->reap(share.orphaned == nullptr && (share.count == 0 || context->room() == 0) ? 1 : 0);
    if (share.orphaned != nullptr) drain_orphaned(*share.orphaned, *context);
  }
}

// ---- Deadlines -----------------------------------------------------------------------------------------------------

Status Executor::start_deadline_thread_locked() {
  const auto body = [](void* executor) { static_cast<Executor*>(executor)->watch_deadlines(); };
  has_deadline_thread_ = start_thread(deadline_thread_, "penstock-watch", body, this);
  return has_deadline_thread_ ? success() : failure(Code::out_of_memory, "start a thread for the request's deadline");
}

// Ends late jobs. It has a thread of its own, because the other threads may all be busy.
void Executor::watch_deadlines() {
  const MutexLock lock(mutex_);
  while (!stopping_) {
    const TimePoint next = queue_.next_deadline();
    if (next == kNoDeadline) {
      deadlines_.wait(mutex_);
    } else if (!deadlines_.wait_until(mutex_, next)) {
      Job* late = queue_.unlink_late();
      const MutexUnlock unlock(mutex_);
      while (late != nullptr) std::exchange(late, RunQueue::next(*late))->time_out();
    }
  }
}

// ---- Callers that do small reads by themselves ---------------------------------------------------------------------

// Adds a context if the threads would otherwise be one short.
JobContext* Executor::lend_context(JobContextHolder& holder, const JobContext* previous) {
  const MutexLock lock(mutex_);
  if (!can_share_ || moved_by() == MovedBy::thread || !contexts_.may_lend()) return nullptr;
  if (contexts_.is_short_of(threads_.size()) && !add_context_locked()) return nullptr;
  return contexts_.lend(holder, previous);
}

void Executor::take_back_context(JobContext& context, JobContextHolder& holder) {
  note_moved_by(context);
  const MutexLock lock(mutex_);
  if (contexts_.give_back(context, holder)) wake_locked();
}

std::size_t Executor::begin_reads(JobContext& context, std::span<Job* const> jobs, bool may_block) {
  const std::size_t begun = context.begin_reads(jobs, may_block);
  note_moved_by(context);
  return begun;
}

Executor::Share Executor::take_reads_of(const void* owner, unsigned most) {
  Share share;
  unsigned passed = 0;
  const MutexLock lock(mutex_);
  for (Job* job = queue_.first(); job != nullptr && share.count < most && passed < kLookedOverMax;) {
    Job* const next = RunQueue::next(*job);
    if (job->owner() != owner || !job->is_read_for_queue()) {
      ++passed;
    } else {
      queue_.unlink(*job);
      share.jobs[share.count++] = job;
    }
    job = next;
  }
  return share;
}

bool Executor::begin_waiting_reads(JobContext& context, const void* owner) {
  const Share share = take_reads_of(owner, jobs_most(context));
  const auto jobs = std::span(share.jobs).first(share.count);
  const std::size_t begun = begin_reads(context, jobs, true);
  if (begun < jobs.size()) append(jobs.subspan(begun));
  return begun > 0 && begun == jobs.size();
}

}  // namespace penstock::core
