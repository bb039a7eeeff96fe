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

void ContextPool::add(std::unique_ptr<SubmissionContext> context) {
  idle_.insert(idle_.begin(), context.get());
  contexts_.push_back(std::move(context));
}

SubmissionContext* ContextPool::take_idle(const SubmissionContext* previous) {
  PENSTOCK_INVARIANT(!idle_.empty());
  auto which = std::find(idle_.begin(), idle_.end(), previous);
  if (which == idle_.end()) --which;
  SubmissionContext* const context = *which;
  idle_.erase(which);
  return context;
}

SubmissionContext* ContextPool::adopt() {
  SubmissionContext* const orphaned = take_orphaned();
  if (orphaned != nullptr) --away_;
  return orphaned;
}

SubmissionContext* ContextPool::take_orphaned() {
  if (orphaned_.empty()) return nullptr;
  SubmissionContext* const orphaned = orphaned_.back();
  orphaned_.pop_back();
  has_orphaned_.store(!orphaned_.empty(), std::memory_order_relaxed);
  return orphaned;
}

void ContextPool::put_drained(SubmissionContext& context) {
  --away_;
  put_idle(context);
}

SubmissionContext* ContextPool::lend(SubmissionContextHolder& holder, const SubmissionContext* previous) {
  ++away_;
  holders_.push_back(&holder);
  return take_idle(previous);
}

bool ContextPool::give_back(SubmissionContext& context, SubmissionContextHolder& holder) {
  std::erase(holders_, &holder);
  if (context.is_idle()) return put_drained(context), false;
  orphaned_.push_back(&context);
  has_orphaned_.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace penstock::core
