// SPDX-License-Identifier: Apache-2.0

// A request queue whose requests the executor's threads carry out, in any order, and a batch of cuFile's: room for a
// number of requests, which are submitted together or one by one, and each reported once. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "frontend/executor.h"
#include "frontend/queue_full_error.h"
#include "frontend/request_queue.h"
#include "frontend/striped.h"
#include "frontend/vectored.h"

namespace penstock::core {

struct QueueEvent {
  // All entries of one call of submit().
  struct Submission {
    unsigned unfinished = 0;      // Entries that have not ended.
    std::uint64_t bytes[2] = {};  // By Op.
    bool ok = true;               // No entry failed.
  };

  QueuedRequest entry;
  Outcome outcome;
  std::optional<Submission> ended;  // Set in the event of the entry that ended last in its submission.
};

class ThreadedQueue final : public RequestQueue, private JobContextHolder {
 public:
  ThreadedQueue(Executor& executor, unsigned capacity);
  // Cancels entries that have not begun, and waits for the others.
  ~ThreadedQueue() override;

  unsigned capacity() const { return static_cast<unsigned>(slots_.size()); }
  Status submit(unsigned count, Maker make, const void* source, std::uint32_t& taken) override;
  // Submits all entries or none, which must not fail to be made. Fails with Code::limit if there is no room; reaping
  // makes room.
  Status submit_all(unsigned count, Maker make, const void* source);
  Status submit(std::span<const QueuedRequest> entries);
  // Writes events in the order in which they came, and returns their number. Waits until the deadline for `least`
  // events, or for as many as are outstanding if that is fewer.
  unsigned reap(std::span<QueueEvent> events, unsigned least, Deadline deadline);
  // Hands each event to take(taker, event), which must not call the queue. For callers with little stack.
  using EventTaker = void (*)(void* taker, const QueueEvent& event);
  unsigned reap(std::size_t room, unsigned least, Deadline deadline, EventTaker take, void* taker);
  unsigned reap(std::size_t room, unsigned least, Deadline deadline, Taker take, void* taker) override;
  Result<int> event_fd() override;
  unsigned cancel(std::uint64_t cookie) override;
  void wait_for(const MemoryPiece& memory) override;
  // Drops entries that have not begun, and waits for the others. No entry submitted earlier is reported any more.
  void cancel();

 private:
  enum class State : std::uint8_t {
    free,
    under_way,  // In the run queue, or begun: the executor knows.
    dropped,    // Under way, but it will not be reported.
    over,       // Ended, and not reported yet.
  };

  struct Slot final : Job {
    void complete(const Outcome& outcome) override {
      const EndedJob ended{this, outcome};
      queue->complete({&ended, 1});
    }
    void complete_all(std::span<const EndedJob> jobs) override { queue->complete(jobs); }
    const void* owner() const override { return queue; }
    bool is_under_way() const { return state == State::under_way || state == State::dropped; }
    bool uses(const MemoryPiece& memory) const;

    ThreadedQueue* queue = nullptr;
    State state = State::free;
    std::uint64_t number = 0;  // Counts up in the order of submission.
    QueueEvent::Submission* submission = nullptr;
    QueueEvent event;
    std::unique_ptr<VectoredJob> vectored;
    std::unique_ptr<StripedJob> striped;
  };

  Status submit_locked(unsigned count, Maker make, const void* source, std::uint32_t& taken) REQUIRES(mutex_);
  Status fill_locked(Slot& slot, const QueuedRequest& entry) REQUIRES(mutex_);
  template <typename Take>
  unsigned reap_events(std::size_t room, unsigned least, const Deadline& deadline, Take take);
  void complete(std::span<const EndedJob> jobs);
  void complete_locked(Slot& slot, const Outcome& outcome) REQUIRES(mutex_);
  void free_locked(Slot& slot) REQUIRES(mutex_);
  void show_done_locked() REQUIRES(mutex_);
  void notify_locked() REQUIRES(mutex_);
  void notify_all_locked() REQUIRES(mutex_);
  std::size_t outstanding_locked() const REQUIRES(mutex_) { return slots_.size() - free_.size(); }
  std::size_t wanted_locked(std::size_t room, unsigned least) const REQUIRES(mutex_);
  void start_jobs_locked() REQUIRES(mutex_);
  bool try_borrow_for_caller_locked() REQUIRES(mutex_);
  std::span<Job* const> begin_reads_on_caller_locked() REQUIRES(mutex_);
  void move_reads_on_caller_locked(std::size_t room, unsigned least, const Deadline& deadline) REQUIRES(mutex_);
  bool borrow_context_locked() REQUIRES(mutex_);
  bool has_passive_waiter_locked() const REQUIRES(mutex_);
  void end_use_of_context_locked() REQUIRES(mutex_);
  void let_context_go_locked() REQUIRES(mutex_);
  void return_context() override;

  Executor& executor_;
  Mutex mutex_;
  ConditionVariable completions_;
  std::vector<Slot> slots_;  // The mutex guards each slot as well.
  std::vector<Slot*> free_ GUARDED_BY(mutex_);
  QueueFullError full_error_ GUARDED_BY(mutex_);
  std::vector<Slot*> done_ GUARDED_BY(mutex_);  // Not reported yet, oldest first.
  std::vector<Job*> jobs_ GUARDED_BY(mutex_);   // The jobs of one submission, while it is made.
  // Callers begin small reads with this context, and work on it when they reap. With reads in flight it stays with the
  // queue only while no caller waits for them in another way.
  std::atomic<JobContext*> context_{nullptr};                // Written under the lock, read without it.
  const JobContext* previous_ GUARDED_BY(mutex_) = nullptr;  // The latest one, which the queue asks for again.
  bool in_use_ GUARDED_BY(mutex_) = false;                   // A caller uses the context, without holding the lock.
  std::vector<Job*> begun_ GUARDED_BY(mutex_);               // Jobs that this caller may be beginning.
  std::uint64_t submitted_ GUARDED_BY(mutex_) = 0;           // Entries.
  std::vector<QueueEvent::Submission> submissions_;
  std::vector<QueueEvent::Submission*> free_submissions_ GUARDED_BY(mutex_);
  std::atomic<std::size_t> done_count_{0};             // The size of done_, for threads without the lock.
  std::size_t awaited_ GUARDED_BY(mutex_) = SIZE_MAX;  // The fewest completions that a waiting caller wants.
  unsigned dropped_ GUARDED_BY(mutex_) = 0;            // Slots.
  unsigned memory_waits_ GUARDED_BY(mutex_) = 0;       // Threads in wait_for().
  UniqueFd event_fd_ GUARDED_BY(mutex_);               // Open if a caller asked for it.
  bool is_readable_ GUARDED_BY(mutex_) = false;        // The state of event_fd_.
};

}  // namespace penstock::core
