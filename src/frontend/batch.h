// SPDX-License-Identifier: Apache-2.0

// A batch: room for a number of requests that are submitted, together or one by one, carried out in any order by the
// executor, and asked about until each was reported once. Behind cuFile's batches and Penstock's queues. Thread-safe.
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
#include "frontend/full_queue.h"
#include "frontend/striped.h"
#include "frontend/vectored.h"

namespace penstock::core {

struct BatchEntry {
  RawRequest request;
  // Where not empty, the request is a vectored one (vectored.h), which has room for itself as any other, is one event,
  // and has begun with the first of its pieces. Looked at only while it is submitted, which asks for memory to copy
  // them: in the event they are gone, and the request's size is the sum of theirs.
  std::span<const MemoryPiece> pieces;
  // Where not null, the request is on this object, and its file does not count. Looked at as the pieces are.
  const Striped* striped = nullptr;
  void* cookie = nullptr;
  Status refused;           // If not ok, the entry is not carried out, and reported as failed with this.
  std::uint64_t began = 0;  // The caller's clock; comes back in the event.
  // Where it has not begun by then, it ends with timed_out, and is reported at about that time. Once begun it goes on.
  TimePoint deadline = kNoDeadline;
};

struct BatchEvent {
  // All that one call of submit() brought.
  struct Submission {
    unsigned unfinished = 0;      // Entries.
    std::uint64_t bytes[2] = {};  // By Op.
    bool ok = true;               // None failed.
  };

  BatchEntry entry;
  Outcome outcome;
  std::optional<Submission> ended;  // Set in the event with which the last of its entries came to an end.
};

class Batch final : private SubmissionContextHolder {
 public:
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  Batch(Executor& executor, unsigned capacity);
  // Cancels what has not begun, and waits for the rest.
  ~Batch() override;

  unsigned capacity() const { return static_cast<unsigned>(slots_.size()); }
  // One entry of a submission, from what its caller has in a form of its own.
  using Maker = BatchEntry (*)(const void* source, unsigned index);
  // All of them, or none: then Code::limit where there is no room, which reaping makes.
  Status submit(unsigned count, Maker make, const void* source);
  Status submit(std::span<const BatchEntry> entries);
  // Returns how many events it wrote, in the order in which they came about. Waits for `least` of them, or as many as
  // are outstanding, until the deadline.
  unsigned reap(std::span<BatchEvent> events, unsigned least, Deadline deadline);
  // The same, handing each to take(taker, event), which may not turn to the batch. For callers with little stack.
  using Taker = void (*)(void* taker, const BatchEvent& event);
  unsigned reap(std::size_t room, unsigned least, Deadline deadline, Taker take, void* taker);
  // A descriptor for poll(2) and epoll(7), made by the first call and closed with the batch: readable exactly while
  // there is something to reap. Nobody else reads or writes it.
  Result<int> event_fd();
  // Entries with this cookie that have not begun end with `canceled` and are reported like others; returns how many.
  unsigned cancel(const void* cookie);
  // Returns when no entry that was submitted before uses the memory. Entries end as if nobody had waited.
  void wait_for(const MemoryPiece& memory);
  // Entries that have not begun never will; waits for the others. No earlier entry is reported any more.
  void cancel();

 private:
  struct Slot final : Job {
    void finish(const Outcome& outcome) override {
      const Ended ended{this, outcome};
      batch->complete({&ended, 1});
    }
    void finish_all(std::span<const Ended> jobs) override { batch->complete(jobs); }
    const void* owner() const override { return batch; }
    bool uses(const MemoryPiece& memory) const;

    Batch* batch = nullptr;
    bool in_flight = false;
    bool dropped = false;      // In flight, and not to be reported.
    std::uint64_t number = 0;  // In the order of submission.
    BatchEvent::Submission* submission = nullptr;
    BatchEvent event;
    std::unique_ptr<VectoredJob> vectored;
    std::unique_ptr<StripedJob> striped;
  };

  Status fill_locked(Slot& slot, const BatchEntry& entry) REQUIRES(mutex_);
  void complete(std::span<const Ended> jobs);
  void complete_locked(Slot& slot, const Outcome& outcome) REQUIRES(mutex_);
  void drop_locked(Slot& slot) REQUIRES(mutex_);
  void show_done_locked() REQUIRES(mutex_);
  void notify_locked() REQUIRES(mutex_);
  void notify_all_locked() REQUIRES(mutex_);
  std::size_t outstanding_locked() const REQUIRES(mutex_) { return slots_.size() - free_.size(); }
  std::size_t wanted_locked(std::size_t room, unsigned least) const REQUIRES(mutex_);
  void begin_locked() REQUIRES(mutex_);
  bool begins_here_locked() REQUIRES(mutex_);
  std::span<Job* const> begin_here_locked() REQUIRES(mutex_);
  void help_locked(std::size_t room, unsigned least, const Deadline& deadline) REQUIRES(mutex_);
  bool borrow_context_locked() REQUIRES(mutex_);
  bool is_watched_locked() const REQUIRES(mutex_);
  void keep_context_locked() REQUIRES(mutex_);
  void let_context_go_locked() REQUIRES(mutex_);
  void return_context() override;

  Executor& executor_;
  Mutex mutex_;
  ConditionVariable completions_;
  std::vector<Slot> slots_;  // Each guarded by the mutex, too.
  std::vector<Slot*> free_ GUARDED_BY(mutex_);
  FullQueue full_ GUARDED_BY(mutex_);
  std::vector<Slot*> done_ GUARDED_BY(mutex_);  // Not reported yet, oldest first.
  std::vector<Job*> jobs_ GUARDED_BY(mutex_);   // One submission's, while it lasts.
  // Callers begin small reads with it, and look after it when they come to reap. It stays with the batch, with reads in
  // flight, only while no caller waits for these in another way.
  std::atomic<SubmissionContext*> context_{nullptr};             // Written under the lock, looked at without.
  const SubmissionContext* usual_ GUARDED_BY(mutex_) = nullptr;  // The latest, to ask for it again.
  bool in_use_ GUARDED_BY(mutex_) = false;                       // By a caller, which has not got the lock then,
  std::vector<Job*> begun_ GUARDED_BY(mutex_);                   // and perhaps begins these.
  std::uint64_t submitted_ GUARDED_BY(mutex_) = 0;               // Entries.
  std::vector<BatchEvent::Submission> submissions_;
  std::vector<BatchEvent::Submission*> free_submissions_ GUARDED_BY(mutex_);
  std::atomic<std::size_t> done_count_{0};             // The size of done_, to be looked at without the lock.
  std::size_t awaited_ GUARDED_BY(mutex_) = SIZE_MAX;  // The fewest completions that a waiting caller wants.
  unsigned dropped_ GUARDED_BY(mutex_) = 0;            // Slots.
  unsigned memory_waits_ GUARDED_BY(mutex_) = 0;       // Threads in wait_for().
  UniqueFd event_fd_ GUARDED_BY(mutex_);               // Where somebody asked for it,
  bool is_readable_ GUARDED_BY(mutex_) = false;        // and what it is.
};

}  // namespace penstock::core
