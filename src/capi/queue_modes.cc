// SPDX-License-Identifier: Apache-2.0

#include "capi/queue_modes.h"

#include <algorithm>

#include "frontend/queue.h"

namespace penstock::core {
namespace {

// After so many completions more may have arrived, which this call can return as well: larger batches cost less.
constexpr std::uint32_t kLookAgainAfter = 16;

struct Taken {
  penstock_completion* completions;
  std::uint32_t count;

  void add(std::uint64_t cookie, const Status& status, const Report& report) {
    auto completion = to_public<penstock_completion>(status, report, completions->struct_size);
    completion.cookie = cookie;
    write_element(completions, count++, completion);
  }
};

class Threaded final : public QueueMode {
 public:
  Threaded(Executor& executor, std::uint32_t depth) : batch_(executor, depth) {}

  // Submits all at once, so that threads are woken once; one by one where there is no room for all.
  Status submit(std::span<const QueuedRequest> requests, std::uint32_t& taken) override {
    const auto count = static_cast<std::uint32_t>(requests.size());
    const Status status = batch_.submit(requests);
    if (status.ok()) taken += count;
    if (status.ok() || count == 1) return status;
    for (const QueuedRequest& request : requests) {
      if (const Status one = batch_.submit({&request, 1}); !one.ok()) return one;
      ++taken;
    }
    return success();
  }

  std::uint32_t reap(penstock_completion* completions, std::uint32_t room, std::uint32_t least,
                     Batch::Deadline deadline) override {
    Taken taken{completions, 0};
    return batch_.reap(room, least, deadline, &take, &taken);
  }

  std::uint32_t cancel(std::uint64_t cookie) override { return batch_.cancel(cookie); }
  void wait_for(const MemoryPiece& memory) override { batch_.wait_for(memory); }
  Result<int> event_fd() override { return batch_.event_fd(); }

 private:
  static void take(void* taker, const BatchEvent& event) {
    static_cast<Taken*>(taker)->add(event.entry.cookie, event.outcome.status, event.outcome.report);
  }

  Batch batch_;
};

class Polled final : public QueueMode {
 public:
  explicit Polled(std::unique_ptr<Queue> queue) : queue_(std::move(queue)) {}

  Status submit(std::span<const QueuedRequest> requests, std::uint32_t& taken) override {
    for (const QueuedRequest& request : requests) {
      if (const Status status = submit(request); !status.ok()) return status;
      ++taken;
    }
    return success();
  }

  Status submit(const QueuedRequest& request) {
    if (request.striped != nullptr) {
      return failure(Code::unsupported, "submit a request on a striped object to a polled queue; use its members");
    }
    if (!request.pieces.empty())
      return failure(Code::unsupported, "submit pieces of memory to a polled queue, which takes none");
    if (has_passed(request.deadline)) return failure(Code::timed_out, "begin the request");
    return queue_->submit(request.request, request.cookie);
  }

  std::uint32_t reap(penstock_completion* completions, std::uint32_t room, std::uint32_t least,
                     Batch::Deadline deadline) override {
    Taken taken{completions, 0};
    const auto take = [](void* taker, const QueueCompletion& done) {
      static_cast<Taken*>(taker)->add(done.cookie, done.status, done.report);
    };
    for (std::uint32_t before = 0, wanted = 0; taken.count < room; before = taken.count) {
      wanted = std::min(room - before, kLookAgainAfter);
      const unsigned still = least > before ? least - before : 0;
      if (queue_->reap(wanted, still, deadline, take, &taken) < wanted) break;
    }
    return taken.count;
  }

  // All requests have begun.
  std::uint32_t cancel(std::uint64_t) override { return 0; }
  // The queue does not know the memory of its requests: it finishes them all.
  void wait_for(const MemoryPiece&) override { queue_->finish(); }
  Result<int> event_fd() override {
    return failure(Code::unsupported, "watch a polled queue by a descriptor, which only queues with threads have");
  }

 private:
  std::unique_ptr<Queue> queue_;
};

}  // namespace

Result<std::unique_ptr<QueueMode>> open_threaded(Frontends& frontends, std::uint32_t depth) {
  if (depth == 0 || depth > Queue::kDepthMax) return failure(Code::invalid_argument, "open the queue");
  return std::unique_ptr<QueueMode>(std::make_unique<Threaded>(frontends.executor(), depth));
}

Result<std::unique_ptr<QueueMode>> open_polled(Session& session, std::uint32_t depth, std::uint64_t request_bytes_max) {
  Result<std::unique_ptr<Queue>> queue = Queue::open(session, depth, request_bytes_max);
  if (!queue.ok()) return queue.status();
  return std::unique_ptr<QueueMode>(std::make_unique<Polled>(std::move(*queue)));
}

}  // namespace penstock::core
