// SPDX-License-Identifier: Apache-2.0

#include "kv/queue_pool.h"

#include <algorithm>

#include "base/invariant.h"

namespace penstock::kv {
namespace {

constexpr std::uint32_t kDepth = 256;
constexpr std::uint32_t kReapMost = 64;

}  // namespace

core::Status status_of(const penstock_status& status) {
  return {status.step, status.code, static_cast<core::Domain>(status.domain), static_cast<std::uint8_t>(status.driver)};
}

void MovedBytes::count(const Library& library, const penstock_report& report) {
  for (std::size_t path = 0; path < by_path.size(); ++path)
    by_path[path] += library.report_bytes(&report, static_cast<std::int32_t>(path));
  if (report.reason != PENSTOCK_REASON_NONE && report.bytes > 0) by_reason[report.reason] += report.bytes;
}

QueuePool::~QueuePool() {
  for (penstock_queue* queue : idle_) library_.queue_close(queue);
}

core::Result<penstock_queue*> QueuePool::take() {
  {
    const core::MutexLock lock(mutex_);
    if (!idle_.empty()) {
      penstock_queue* const queue = idle_.back();
      idle_.pop_back();
      return queue;
    }
  }
  penstock_queue_options options{};
  options.struct_size = sizeof options;
  options.mode = PENSTOCK_QUEUE_THREADED;
  options.depth = kDepth;
  penstock_queue* queue = nullptr;
  const core::Status status = status_of(library_.queue_open(session_, &options, &queue));
  if (!status.ok()) return status;
  return queue;
}

void QueuePool::transfer_here(std::span<const penstock_request> requests, const Ended& ended) const {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    penstock_report report{};
    report.struct_size = sizeof report;
    const penstock_status status = library_.transfer(&requests[i], &report);
    ended(i, status, report);
  }
}

// Submits as many as the queue takes, and the others as completions arrive.
core::Status QueuePool::transfer_all(std::span<penstock_request> requests, const Ended& ended, std::size_t caller_max) {
  if (requests.size() <= caller_max || requests.empty()) {
    transfer_here(requests, ended);
    return core::success();
  }
  const core::Result<penstock_queue*> queue = take();
  if (!queue.ok()) return queue.status();
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].cookie = i;
  std::size_t begun = 0, over = 0;
  while (over < requests.size()) {
    std::uint32_t taken = 0;
    const std::size_t left = std::min<std::size_t>(requests.size() - begun, kDepth - (begun - over));
    const penstock_status status =
        library_.queue_submit(*queue, requests.data() + begun, static_cast<std::uint32_t>(left), &taken);
    begun += taken;
    if (status.code != 0 && taken < left) {  // This request was refused, and has no completion.
      ended(begun++, status, penstock_report{});
      ++over;
      continue;
    }
    penstock_completion completions[kReapMost];
    for (penstock_completion& completion : completions) completion.struct_size = sizeof completion;
    std::uint32_t count = 0;
    const penstock_status reaped = library_.queue_reap(*queue, completions, kReapMost, 1, -1, &count);
    PENSTOCK_INVARIANT(reaped.code == 0);  // Otherwise memory that is still being written to would be freed.
    for (std::uint32_t i = 0; i < count; ++i, ++over) {
      ended(completions[i].cookie, completions[i].status, completions[i].report);
    }
  }
  const core::MutexLock lock(mutex_);
  idle_.push_back(*queue);
  return core::success();
}

}  // namespace penstock::kv
