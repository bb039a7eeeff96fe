// SPDX-License-Identifier: Apache-2.0

#include "frontend/threaded_queue.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/shortage.h"
#include "engine/spin_wait.h"
#include "frontend/job_context.h"

namespace penstock::core {
namespace {

// A caller with less time than this does not help: a share of small reads may take as long.
constexpr auto kTimeToHelp = std::chrono::milliseconds(1);

bool has_time(const ThreadedQueue::Deadline& deadline) {
  return !deadline || *deadline - std::chrono::steady_clock::now() >= kTimeToHelp;
}

}  // namespace

ThreadedQueue::ThreadedQueue(Executor& executor, unsigned capacity)
    : executor_(executor), slots_(capacity), submissions_(capacity) {
  free_.reserve(capacity);
  done_.reserve(capacity);
  jobs_.reserve(capacity);
  begun_.reserve(capacity);
  free_submissions_.reserve(capacity);
  for (Slot& slot : slots_) {
    slot.queue = this;
    free_.push_back(&slot);
  }
  for (QueueEvent::Submission& each : submissions_) free_submissions_.push_back(&each);
}

ThreadedQueue::~ThreadedQueue() { cancel(); }

Status ThreadedQueue::submit(std::span<const QueuedRequest> entries) {
  const auto copy = [](const void* all, unsigned index, QueuedRequest& made) {
    made = static_cast<const QueuedRequest*>(all)[index];
    return success();
  };
  return submit_all(static_cast<unsigned>(entries.size()), copy, entries.data());
}

// Takes room for all entries under one lock, so that two threads' submissions cannot each get half of it.
Status ThreadedQueue::submit_all(unsigned count, Maker make, const void* source) {
  const MutexLock lock(mutex_);
  std::uint32_t taken = 0;
  return count > free_.size() ? full_error_.status(slots_.size()) : submit_locked(count, make, source, taken);
}

Status ThreadedQueue::submit(unsigned count, Maker make, const void* source, std::uint32_t& taken) {
  const MutexLock lock(mutex_);
  return submit_locked(count, make, source, taken);
}

// Starts all together, so that threads are woken once.
Status ThreadedQueue::submit_locked(unsigned count, Maker make, const void* source, std::uint32_t& taken) {
  if (count == 0) return success();
  if (free_.empty()) return full_error_.status(slots_.size());
  jobs_.clear();
  // There are as many submissions as entries that can be under way, so one is free.
  QueueEvent::Submission* const submission = free_submissions_.back();
  free_submissions_.pop_back();
  *submission = {.unfinished = count};
  Status status;
  while (taken < count && !free_.empty()) {
    QueuedRequest entry;
    status = make(source, taken, entry);
    if (!status.ok()) break;
    ++taken;
    Slot& slot = *free_.back();
    free_.pop_back();
    slot.submission = submission;
    const Status refused = fill_locked(slot, entry);
    if (refused.ok()) jobs_.push_back(&slot);
    else complete_locked(slot, {refused, {}});
  }
  const unsigned others = count - taken;
  if (others > 0 && (submission->unfinished -= others) == 0) free_submissions_.push_back(submission);
  start_jobs_locked();
  notify_locked();
  return status.ok() && others > 0 ? full_error_.status(slots_.size()) : status;
}

void ThreadedQueue::start_jobs_locked() {
  if (jobs_.empty()) return;
  const std::span<Job* const> rest = try_borrow_for_caller_locked() ? begin_reads_on_caller_locked() : jobs_;
  const Status status = rest.empty() ? success() : executor_.enqueue(rest);
  // No thread can carry these out, so they end with that status.
  for (Job* job : rest) {
    if (!status.ok()) complete_locked(static_cast<Slot&>(*job), {status, {}});
  }
}

// Small reads that the device fetches by itself need none of the executor's threads: waking a thread takes longer than
// a few of them, and two threads that work on one request slow each other down through their caches (128 reads of 4 KiB
// at once: 1.82 million a second at 0.56 us of CPU each, and 1.57 at 1.23 by threads; one H100, 16 CPUs, 2026-11-26).
bool ThreadedQueue::try_borrow_for_caller_locked() {
  const auto is_for_here = [](const Job* job) { return job->is_read_for_queue() && job->deadline == kNoDeadline; };
  return executor_.device_moves_reads() && !in_use_ && !has_passive_waiter_locked() &&
         std::all_of(jobs_.begin(), jobs_.end(), is_for_here) && borrow_context_locked();
}

// Begins jobs on this thread and returns those that it could not begin. Opens no channel: callers that wait for events
// must not wait for the device.
std::span<Job* const> ThreadedQueue::begin_reads_on_caller_locked() {
  in_use_ = true;
  begun_.swap(jobs_);
  const std::span<Job*> jobs = begun_;
  std::size_t count = 0;
  {
    JobContext& context = *context_;
    const MutexUnlock unlock(mutex_);
    count = executor_.begin_reads(context, jobs, false);
  }
  end_use_of_context_locked();
  // A job that was canceled meanwhile does not begin.
  const std::span<Job*> rest = jobs.subspan(count);
  const auto stays = [](const Job* job) { return static_cast<const Slot*>(job)->state != State::dropped; };
  const auto canceled = std::partition(rest.begin(), rest.end(), stays);
  for (auto each = canceled; each != rest.end(); ++each) complete_locked(static_cast<Slot&>(**each), {});
  return rest.first(static_cast<std::size_t>(canceled - rest.begin()));
}

// False if the queue has no submission context and can get none.
bool ThreadedQueue::borrow_context_locked() {
  if (context_ == nullptr) context_ = executor_.lend_context(*this, previous_);
  if (context_ != nullptr) previous_ = context_;
  return context_ != nullptr;
}

// True if a caller waits in a way in which it would not work on the submission context.
bool ThreadedQueue::has_passive_waiter_locked() const {
  return awaited_ != SIZE_MAX || dropped_ > 0 || memory_waits_ > 0 || event_fd_.valid();
}

void ThreadedQueue::end_use_of_context_locked() {
  in_use_ = false;
  const JobContext& context = *context_;
  const bool stays = !context.is_idle() && !context.has_storage_under_way() && executor_.device_moves_reads();
  if (!stays || has_passive_waiter_locked()) let_context_go_locked();
}

void ThreadedQueue::let_context_go_locked() {
  if (context_ != nullptr && !in_use_) executor_.take_back_context(*context_.exchange(nullptr), *this);
}

void ThreadedQueue::return_context() {
  const MutexLock lock(mutex_);
  let_context_go_locked();
}

// Fills a slot from the entry. Fails if the entry cannot be carried out.
Status ThreadedQueue::fill_locked(Slot& slot, const QueuedRequest& entry) {
  slot.event.entry = entry;  // The outcome comes when the entry has ended.
  slot.event.ended.reset();
  QueuedRequest& kept = slot.event.entry;
  kept.pieces = {};
  kept.striped = nullptr;
  Status status = entry.refused;
  if (status.ok() && entry.striped != nullptr) status = admit_striped(*entry.striped, kept.request, entry.pieces);
  else if (status.ok() && !entry.pieces.empty()) status = admit_pieces(kept.request, entry.pieces);
  slot.request = kept.request;
  slot.deadline = entry.deadline;
  slot.state = State::under_way;
  slot.number = ++submitted_;
  const bool is_plain = entry.pieces.empty() && entry.striped == nullptr;
  if (!status.ok() || is_plain || slot.request.size == 0) return status;
  const auto copy = [&] {
    if (entry.striped != nullptr)
      slot.striped = std::make_unique<StripedJob>(executor_, *entry.striped, slot, entry.pieces);
    else slot.vectored = std::make_unique<VectoredJob>(executor_, slot, entry.pieces);
    return success();
  };
  return unless_short_of_memory(copy, [] { return failure(Code::out_of_memory, "copy the request's pieces"); });
}

void ThreadedQueue::complete_locked(Slot& slot, const Outcome& outcome) {
  slot.event.outcome = outcome;
  slot.vectored.reset();
  slot.striped.reset();
  QueueEvent::Submission* const submission = slot.submission;
  submission->bytes[static_cast<unsigned>(slot.request.op)] += outcome.status.ok() ? outcome.report.bytes : 0;
  submission->ok &= outcome.status.ok();
  if (--submission->unfinished == 0) {
    slot.event.ended = *submission;
    free_submissions_.push_back(submission);
  }
  if (slot.state == State::dropped) {
    free_locked(slot);
    if (--dropped_ == 0) notify_all_locked();
  } else {
    slot.state = State::over;
    done_.push_back(&slot);
  }
}

void ThreadedQueue::free_locked(Slot& slot) {
  slot.state = State::free;
  free_.push_back(&slot);
}

// Publishes the number of events for threads that look without the lock.
void ThreadedQueue::show_done_locked() {
  done_count_.store(done_.size(), std::memory_order_release);
  if (!event_fd_.valid() || is_readable_ == !done_.empty()) return;
  is_readable_ = !done_.empty();
  eventfd_t count = 1;
  (void)(is_readable_ ? ::eventfd_write(event_fd_.get(), count) : ::eventfd_read(event_fd_.get(), &count));
}

Result<int> ThreadedQueue::event_fd() {
  const MutexLock lock(mutex_);
  if (!event_fd_.valid()) {
    event_fd_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event_fd_.valid()) return os_failure(errno, "make a descriptor to wait for requests with");
    let_context_go_locked();
    show_done_locked();
  }
  return event_fd_.get();
}

// Called with the lock held, because the thread that waits may be in the destructor.
void ThreadedQueue::notify_locked() {
  show_done_locked();
  if (done_.size() >= awaited_ || memory_waits_ > 0) notify_all_locked();
}

void ThreadedQueue::notify_all_locked() {
  awaited_ = SIZE_MAX;
  completions_.notify_all();
}

void ThreadedQueue::complete(std::span<const EndedJob> jobs) {
  const MutexLock lock(mutex_);
  for (const EndedJob& each : jobs) complete_locked(static_cast<Slot&>(*each.job), each.outcome);
  notify_locked();
}

std::size_t ThreadedQueue::wanted_locked(std::size_t room, unsigned least) const {
  return std::min({std::size_t{least}, room, outstanding_locked()});
}

// Lets a caller that has to wait anyway do work that no thread has begun; then the caller looks for a moment, because
// the rest may be nearly done.
void ThreadedQueue::move_reads_on_caller_locked(std::size_t room, unsigned least, const Deadline& deadline) {
  const std::size_t wanted = wanted_locked(room, least);
  const auto enough = [this, wanted] { return done_count_.load(std::memory_order_acquire) >= wanted; };
  const auto may_go_on = [&] { return !enough() && has_time(deadline); };
  // The executor may be gone; everything is done then.
  if (context_ == nullptr && !may_go_on()) return;
  const bool looks = executor_.can_spin();
  if (!in_use_ && (context_ != nullptr || (may_go_on() && executor_.has_waiting() && borrow_context_locked()))) {
    in_use_ = true;
    {
      JobContext& context = *context_;
      const MutexUnlock unlock(mutex_);
      context.reap(0);
      while (may_go_on() && executor_.begin_waiting_reads(context, this)) {
      }
      const auto is_over = [&] {
        context.reap(0);
        return context.is_idle() || enough();
      };
      if (may_go_on()) (void)spin_wait(is_over, looks ? executor_.spin_time() : kSpinTime);
    }
    end_use_of_context_locked();
  }
  if (!looks || !may_go_on()) return;
  const MutexUnlock unlock(mutex_);
  (void)spin_wait(enough);
}

unsigned ThreadedQueue::reap(std::span<QueueEvent> events, unsigned least, Deadline deadline) {
  QueueEvent* next = events.data();
  return reap_events(events.size(), least, deadline, [&](const QueueEvent& event) { *next++ = event; });
}

unsigned ThreadedQueue::reap(std::size_t room, unsigned least, Deadline deadline, EventTaker take, void* taker) {
  return reap_events(room, least, deadline, [&](const QueueEvent& event) { take(taker, event); });
}

unsigned ThreadedQueue::reap(std::size_t room, unsigned least, Deadline deadline, Taker take, void* taker) {
  const auto hand = [&](const QueueEvent& event) { take(taker, event.entry.cookie, event.outcome); };
  return reap_events(room, least, deadline, hand);
}

template <typename Take>
unsigned ThreadedQueue::reap_events(std::size_t room, unsigned least, const Deadline& deadline, Take take) {
  // A caller that polls again and again must not keep threads with results from the lock.
  if (least == 0 && done_count_.load(std::memory_order_acquire) == 0 && context_ == nullptr) return 0;
  const MutexLock lock(mutex_);
  move_reads_on_caller_locked(room, least, deadline);
  for (bool late = false; !late && done_.size() < wanted_locked(room, least);) {
    awaited_ = std::min(awaited_, wanted_locked(room, least));
    let_context_go_locked();
    if (deadline) late = !completions_.wait_until(mutex_, *deadline);
    else completions_.wait(mutex_);
  }
  const std::size_t count = std::min(room, done_.size());
  for (std::size_t i = 0; i < count; ++i) {
    take(done_[i]->event);
    free_locked(*done_[i]);
  }
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  show_done_locked();
  // Other callers may wait for more events than are left now.
  if (awaited_ != SIZE_MAX && count > 0) notify_all_locked();
  return static_cast<unsigned>(count);
}

unsigned ThreadedQueue::cancel(std::uint64_t cookie) {
  const MutexLock lock(mutex_);
  unsigned count = 0;
  for (Slot& slot : slots_) {
    const bool meant = slot.state == State::under_way && slot.event.entry.cookie == cookie;
    if (!meant || !executor_.withdraw(slot)) continue;
    complete_locked(slot, {failure(Code::canceled, transfer_step(slot.request.op)), {}});
    ++count;
  }
  notify_locked();
  return count;
}

// The members of a striped object use parts of the memory; they are not checked one by one.
bool ThreadedQueue::Slot::uses(const MemoryPiece& memory) const {
  if (striped != nullptr) return true;
  if (vectored != nullptr) {
    const auto is_in = [&](const MemoryPiece& piece) { return have_common_bytes(piece, memory); };
    return std::any_of(pieces.begin(), pieces.end(), is_in);
  }
  // If base and offset make no sense there is no memory: such a request fails before it uses any.
  const auto begin = reinterpret_cast<std::uintptr_t>(request.base) + static_cast<std::uint64_t>(request.buffer_offset);
  return have_common_bytes({reinterpret_cast<void*>(begin), request.size}, memory);
}

void ThreadedQueue::wait_for(const MemoryPiece& memory) {
  const MutexLock lock(mutex_);
  const std::uint64_t last = submitted_;
  const auto is_in_it = [&](const Slot& slot) {
    return slot.is_under_way() && slot.number <= last && slot.uses(memory);
  };
  ++memory_waits_;
  let_context_go_locked();
  while (std::any_of(slots_.begin(), slots_.end(), is_in_it)) completions_.wait(mutex_);
  --memory_waits_;
}

// Cancels entries, and wakes callers that wait for events, because fewer will come.
void ThreadedQueue::cancel() {
  const MutexLock lock(mutex_);
  for (Slot& slot : slots_) {
    if (slot.state != State::under_way) continue;
    slot.state = State::dropped;
    ++dropped_;
    if (executor_.withdraw(slot)) complete_locked(slot, {});
  }
  for (Slot* const slot : done_) free_locked(*slot);
  done_.clear();
  show_done_locked();
  notify_all_locked();
  let_context_go_locked();
  while (dropped_ > 0) completions_.wait(mutex_);
}

}  // namespace penstock::core
