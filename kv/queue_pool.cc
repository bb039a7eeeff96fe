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
    idle_.reserve(++made_);
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

void QueuePool::give_back(penstock_queue* queue) {
  const core::MutexLock lock(mutex_);
  idle_.push_back(queue);
}

// A queue while its requests are under way. Its end waits for the requests that an exception has left: the kernel still
// writes into their memory.
class QueuePool::Use {
 public:
  Use(QueuePool& pool, penstock_queue* queue) : pool_(pool), queue_(queue) {}
  ~Use() {
    penstock_completion completions[kReapMost];
    while (over < begun) (void)reap(completions);
    pool_.give_back(queue_);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  // Waits for one at least.
  std::uint32_t reap(penstock_completion (&completions)[kReapMost]) {
    for (penstock_completion& completion : completions) completion.struct_size = sizeof completion;
    std::uint32_t count = 0;
    const penstock_status status = pool_.library_.queue_reap(queue_, completions, kReapMost, 1, -1, &count);
    PENSTOCK_INVARIANT(status.code == 0);  // Otherwise memory that is still being written to would be freed.
    over += count;
    return count;
  }

  std::size_t begun = 0, over = 0;

 private:
  QueuePool& pool_;
  penstock_queue* const queue_;
};

void QueuePool::transfer_here(std::span<const penstock_request> requests, const Ended& ended) const {
  for (const penstock_request& one : requests) {
    penstock_completion completion{};
    completion.cookie = one.cookie;
    completion.report.struct_size = sizeof completion.report;
    completion.status = library_.transfer(&one, &completion.report);
    ended({&completion, 1});
  }
}

// Submits as many as the queue takes, and the others as completions arrive.
core::Status QueuePool::transfer_all(std::span<penstock_request> requests, const Ended& ended, std::size_t caller_max) {
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].cookie = i;
  if (requests.size() <= caller_max || requests.empty()) {
    transfer_here(requests, ended);
    return core::success();
  }
  const core::Result<penstock_queue*> queue = take();
  if (!queue.ok()) return queue.status();
  Use use(*this, *queue);
  while (use.over < requests.size()) {
    std::uint32_t taken = 0;
    const std::size_t left = std::min<std::size_t>(requests.size() - use.begun, kDepth - (use.begun - use.over));
    const penstock_status status =
        library_.queue_submit(*queue, requests.data() + use.begun, static_cast<std::uint32_t>(left), &taken);
    use.begun += taken;
    if (status.code != 0 && taken < left) {  // This request was refused, and has no completion.
      penstock_completion refused{};
      refused.cookie = use.begun++;
      refused.status = status;
      ++use.over;
      ended({&refused, 1});
      continue;
    }
    penstock_completion completions[kReapMost];
    ended({completions, use.reap(completions)});
  }
  return core::success();
}

}  // namespace penstock::kv
