// SPDX-License-Identifier: Apache-2.0

// The submission contexts of an executor: one for each of its threads, and a few more for callers that do small reads
// by themselves. A context that is given back with requests in flight is orphaned until a thread takes it and drains
// it. One thread at a time uses it; the executor guards it by its mutex. Allocates only in its constructor and in
// add().
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "frontend/job_context.h"

namespace penstock::core {

// An object that has borrowed a submission context.
class JobContextHolder {
 public:
  virtual ~JobContextHolder() = default;
  // Called when the executor ends: returns the context. No other thread uses the holder meanwhile.
  virtual void return_context() = 0;
};

class ContextPool {
 public:
  static constexpr unsigned kLentMax = 4;  // Contexts that are lent to callers at the same time.

  // Writes into `has_orphaned`, which other threads may read, if a context is orphaned.
  ContextPool(unsigned threads_max, std::atomic<bool>& has_orphaned);

  // True if a thread more, or a caller, needs a context more.
  bool is_short_of(std::size_t threads) const { return contexts_.size() == threads + away_; }
  // Adds an idle context, which is the last to be taken: it has no open queue.
  void add(std::unique_ptr<JobContext> context);

  // ---- For threads
  // There always is an idle context, if there is one for each thread. If the previous one is not idle, takes one whose
  // queue is likely to be open.
  JobContext* take_idle(const JobContext* previous);
  void put_idle(JobContext& context) { idle_.push_back(&context); }
  std::size_t orphaned_count() const { return orphaned_.size(); }
  // Takes an orphaned context as the thread's own; null if there is none.
  JobContext* adopt();
  // Takes an orphaned context to drain it beside the thread's own, and then to put_drained().
  JobContext* take_orphaned();
  void put_drained(JobContext& context);

  // ---- For callers
  bool may_lend() const { return away_ < kLentMax; }
  JobContext* lend(JobContextHolder& holder, const JobContext* previous);
  // True if the context is orphaned now.
  bool give_back(JobContext& context, JobContextHolder& holder);
  std::vector<JobContextHolder*> holders() const { return holders_; }

 private:
  std::vector<std::unique_ptr<JobContext>> contexts_;
  std::vector<JobContext*> idle_;  // The one used last is at the end and is taken first: its queue is still open.
  std::vector<JobContext*> orphaned_;
  std::atomic<bool>& has_orphaned_;
  std::vector<JobContextHolder*> holders_;
  unsigned away_ = 0;  // Contexts that are lent, or orphaned and not yet a thread's own or drained.
};

}  // namespace penstock::core
