// SPDX-License-Identifier: Apache-2.0

#include "frontend/run_queue.h"

#include <algorithm>

namespace penstock::core {

// Never 0, because a thread is also woken for a request without bytes.
std::uint64_t RunQueue::bytes_of(const Job& job) {
  return job.fits_queue() ? std::clamp(job.request.size, std::uint64_t{1}, kShareBytes) : kFetchedShareBytes;
}

void RunQueue::append(Job& job) {
  job.previous_ = last_;
  job.next_ = nullptr;
  job.waiting_ = true;
  (last_ == nullptr ? first_ : last_->next_) = &job;
  last_ = &job;
  bytes_ += bytes_of(job);
  size_.store(size() + 1, std::memory_order_relaxed);
  next_deadline_ = std::min(next_deadline_, job.deadline);
}

void RunQueue::unlink(Job& job) {
  (job.previous_ == nullptr ? first_ : job.previous_->next_) = job.next_;
  (job.next_ == nullptr ? last_ : job.next_->previous_) = job.previous_;
  job.waiting_ = false;
  bytes_ -= bytes_of(job);
  size_.store(size() - 1, std::memory_order_relaxed);
}

bool RunQueue::withdraw(Job& job) {
  const bool waiting = job.waiting_;
  if (waiting) unlink(job);
  return waiting;
}

Job* RunQueue::unlink_late() {
  const TimePoint now = std::chrono::steady_clock::now();
  Job* late = nullptr;
  Job** end = &late;
  next_deadline_ = kNoDeadline;
  for (Job* job = first_; job != nullptr;) {
    Job* const next = job->next_;
    if (job->deadline <= now) {
      unlink(*job);
      job->next_ = nullptr;
      *end = job;
      end = &job->next_;
    } else {
      next_deadline_ = std::min(next_deadline_, job->deadline);
    }
    job = next;
  }
  return late;
}

}  // namespace penstock::core
