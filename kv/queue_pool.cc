// SPDX-License-Identifier: Apache-2.0

#include "kv/queue_pool.h"

#include <algorithm>
#include <utility>

#include "base/invariant.h"

namespace penstock::kv {
namespace {

constexpr std::uint32_t kDepth = 256;
constexpr std::uint32_t kReapMost = 64;
// More are submitted in several steps: the first are under way while the pieces of the next are copied.
constexpr std::size_t kSubmitMost = 16;

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

  // Begins some of those that have not begun, or tells that the next one was refused. False if none is left, or the
  // queue has no room.
  bool begin_some(std::span<const penstock_request> all, const Ended& ended) {
    const std::size_t left = std::min({all.size() - begun, kDepth - (begun - over), kSubmitMost});
    std::uint32_t taken = 0;
    if (left == 0) return false;
    const penstock_status status =
        pool_.library_.queue_submit(queue_, all.data() + begun, static_cast<std::uint32_t>(left), &taken);
    begun += taken;
    if (taken == left || status.code == 0) return taken > 0;
    penstock_completion refused{};
    refused.cookie = begun++;
    refused.status = status;
    ++over;
    ended({&refused, 1});
    return true;
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

core::Status QueuePool::transfer_all(std::span<penstock_request> requests, const Ended& ended, std::size_t caller_max) {
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].cookie = i;
  const std::size_t here = std::min<std::size_t>(requests.size(), requests.size() <= caller_max ? caller_max : 1);
  const std::span<penstock_request> own = requests.last(here), others = requests.first(requests.size() - here);
  if (others.empty()) {
    transfer_here(own, ended);
    return core::success();
  }
  const core::Result<penstock_queue*> queue = take();
  if (!queue.ok()) return queue.status();
  Use use(*this, *queue);
  for (bool is_own_over = false; !is_own_over || use.over < others.size();) {
    if (use.begin_some(others, ended)) continue;
    if (use.begun == others.size() && !std::exchange(is_own_over, true)) transfer_here(own, ended);
    if (use.over == others.size()) continue;
    penstock_completion completions[kReapMost];
    ended({completions, use.reap(completions)});
  }
  return core::success();
}

}  // namespace penstock::kv
