// SPDX-License-Identifier: Apache-2.0

#include "frontend/context_pool.h"

#include <algorithm>
#include <utility>

#include "base/invariant.h"

namespace penstock::core {

ContextPool::ContextPool(unsigned threads_max, std::atomic<bool>& has_orphaned) : has_orphaned_(has_orphaned) {
  for (auto* const contexts : {&idle_, &orphaned_}) contexts->reserve(threads_max + kLentMax);
  contexts_.reserve(threads_max + kLentMax);
  holders_.reserve(kLentMax);
}

void ContextPool::add(std::unique_ptr<JobContext> context) {
  idle_.insert(idle_.begin(), context.get());
  contexts_.push_back(std::move(context));
}

JobContext* ContextPool::take_idle(const JobContext* previous) {
  PENSTOCK_INVARIANT(!idle_.empty());
  auto which = std::find(idle_.begin(), idle_.end(), previous);
  if (which == idle_.end()) --which;
  JobContext* const context = *which;
  idle_.erase(which);
  return context;
}

JobContext* ContextPool::adopt() {
  JobContext* const orphaned = take_orphaned();
  if (orphaned != nullptr) --away_;
  return orphaned;
}

JobContext* ContextPool::take_orphaned() {
  if (orphaned_.empty()) return nullptr;
  JobContext* const orphaned = orphaned_.back();
  orphaned_.pop_back();
  has_orphaned_.store(!orphaned_.empty(), std::memory_order_relaxed);
  return orphaned;
}

void ContextPool::put_drained(JobContext& context) {
  --away_;
  put_idle(context);
}

JobContext* ContextPool::lend(JobContextHolder& holder, const JobContext* previous) {
  ++away_;
  holders_.push_back(&holder);
  return take_idle(previous);
}

bool ContextPool::give_back(JobContext& context, JobContextHolder& holder) {
  std::erase(holders_, &holder);
  if (context.is_idle()) return put_drained(context), false;
  orphaned_.push_back(&context);
  has_orphaned_.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace penstock::core
