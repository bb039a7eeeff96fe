#include "session/batch.h"

#include <algorithm>

namespace penstock::core {

Batch::Batch(Executor& executor, unsigned capacity) : executor_(executor), slots_(capacity) {
  free_.reserve(capacity);
  done_.reserve(capacity);
  jobs_.reserve(capacity);
  for (Slot& slot : slots_) {
    slot.batch = this;
    free_.push_back(&slot);
  }
}

Batch::~Batch() {
  cancel();
  std::unique_lock lock(mutex_);
  completions_.wait(lock, [this] { return done_.size() == outstanding_locked(); });
}

// Under the lock as a whole, so that of two threads' submissions neither sees half of the other's.
Status Batch::submit(std::span<const BatchEntry> entries) {
  const std::lock_guard lock(mutex_);
  if (entries.size() > free_.size()) return failure(Code::limit, "submit to the batch");
  jobs_.clear();
  const auto submission = std::make_shared<BatchEvent::Submission>();
  submission->unfinished = static_cast<unsigned>(entries.size());
  for (const BatchEntry& entry : entries) {
    Slot& slot = *free_.back();
    free_.pop_back();
    slot.request = entry.request;
    slot.event = {.entry = entry};
    slot.in_flight = true;
    slot.submission = submission;
    if (entry.refused.ok()) jobs_.push_back(&slot);
    else complete_locked(slot, {entry.refused, {}});
  }
  if (jobs_.empty()) return success();
  const Status status = executor_.submit(jobs_);
  // No thread to carry them out: that is how they end.
  for (Job* job : jobs_) {
    if (!status.ok()) complete_locked(static_cast<Slot&>(*job), {status, {}});
  }
  return success();
}

void Batch::complete_locked(Slot& slot, const Outcome& outcome) {
  slot.event.outcome = outcome;
  slot.in_flight = false;
  const std::shared_ptr<BatchEvent::Submission> submission = std::move(slot.submission);
  submission->bytes[static_cast<unsigned>(slot.request.op)] += outcome.status.ok() ? outcome.report.bytes : 0;
  submission->ok &= outcome.status.ok() && !slot.event.canceled;
  if (--submission->unfinished == 0) slot.event.ended = *submission;
  done_.push_back(&slot);
  completions_.notify_all();
}

// Notifies with the lock held: whoever waits may be the destructor.
void Batch::complete(Slot& slot, const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  complete_locked(slot, outcome);
}

unsigned Batch::reap(std::span<BatchEvent> events, unsigned least, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto enough = [&] {
    return done_.size() >= std::min({std::size_t{least}, events.size(), outstanding_locked()});
  };
  if (deadline) (void)completions_.wait_until(lock, *deadline, enough);
  else completions_.wait(lock, enough);
  const std::size_t count = std::min(events.size(), done_.size());
  for (std::size_t i = 0; i < count; ++i) {
    events[i] = done_[i]->event;
    free_.push_back(done_[i]);
  }
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  return static_cast<unsigned>(count);
}

void Batch::cancel() {
  const std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) {
    if (!slot.in_flight || !executor_.withdraw(slot)) continue;
    slot.event.canceled = true;
    complete_locked(slot, {});
  }
}

}  // namespace penstock::core
