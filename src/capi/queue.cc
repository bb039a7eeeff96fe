// SPDX-License-Identifier: Apache-2.0

// The C API's queues.
#include <algorithm>
#include <chrono>

#include "capi/conversions.h"
#include "frontend/polled_queue.h"
#include "frontend/threaded_queue.h"

namespace core = penstock::core;

struct penstock_queue {
  std::shared_ptr<core::GuardedSession> guarded;
  std::unique_ptr<core::RequestQueue> requests;
};

namespace {

using core::Code;
using core::failure;
using core::GuardedSession;
using core::session_call;
using core::Status;
using core::status_call;
using core::success;

using Opened = core::Result<std::unique_ptr<core::RequestQueue>>;

Opened open_requests(const GuardedSession::Use& use, const penstock_queue_options& options) {
  const bool is_threaded = options.mode == PENSTOCK_QUEUE_THREADED && options.request_bytes_max == 0;
  if (options.reserved == 0 && options.mode == PENSTOCK_QUEUE_POLLED)
    return core::PolledQueue::open(*use, options.depth, options.request_bytes_max);
  if (options.reserved != 0 || !is_threaded || options.depth == 0 || options.depth > core::ChannelQueue::kDepthMax)
    return failure(Code::invalid_argument, "open the queue");
  return std::unique_ptr<core::RequestQueue>(
      std::make_unique<core::ThreadedQueue>(use.frontends().executor(), options.depth));
}

struct Submission {
  const penstock_queue& queue;
  const penstock_request* requests;
};

Status make_request(const void* submission, unsigned index, core::QueuedRequest& made) {
  const auto& [queue, requests] = *static_cast<const Submission*>(submission);
  penstock_request request{};
  if (const Status status = core::read_element(requests, index, request); !status.ok()) return status;
  if (request.file != nullptr && request.file->guarded != queue.guarded) {
    return failure(Code::invalid_argument, "submit a request on a file of another session");
  }
  return core::make_queued(request, made);
}

// A timeout of centuries counts as infinite.
core::RequestQueue::Deadline deadline_in(std::int64_t timeout_ns) {
  if (timeout_ns < 0 || timeout_ns > INT64_MAX / 2) return std::nullopt;
  return std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
}

// Fills the caller's array of completions, whose elements have the size of the caller's version.
struct Completions {
  penstock_completion* const all;
  std::uint32_t count = 0;

  static void take(void* completions, std::uint64_t cookie, const core::Outcome& outcome) {
    auto& [all, count] = *static_cast<Completions*>(completions);
    auto completion = core::to_public<penstock_completion>(outcome.status, outcome.report, all->struct_size);
    completion.cookie = cookie;
    core::write_element(all, count++, completion);
  }
};

}  // namespace

extern "C" {

penstock_status penstock_queue_open(penstock_session* session, const penstock_queue_options* options,
                                    penstock_queue** queue) {
  constexpr const char* kStep = "open the queue";
  if (queue != nullptr) *queue = nullptr;
  return session_call(kStep, session, [&](const GuardedSession::Use& use) -> Status {
    if (queue == nullptr) return failure(Code::invalid_argument, kStep);
    penstock_queue_options said{};
    if (const Status status = core::read_struct(options, said); !status.ok()) return status;
    auto handle = std::make_unique<penstock_queue>(penstock_queue{session->guarded, nullptr});
    Opened requests = open_requests(use, said);
    if (!requests.ok()) return requests.status();
    handle->requests = std::move(*requests);
    session->guarded->queues().add(*handle->requests);
    *queue = handle.release();
    return success();
  });
}

void penstock_queue_close(penstock_queue* queue) {
  return core::boundary(
      [&] {
        if (queue == nullptr || queue->guarded->is_inherited()) return;
        const std::shared_ptr<GuardedSession> guarded = queue->guarded;  // Outlives `use`.
        const GuardedSession::Use use(*guarded);
        if (!use) guarded->wait_closed();
        guarded->queues().remove(*queue->requests);
        delete queue;
      },
      [] {});
}

penstock_status penstock_queue_submit(penstock_queue* queue, const penstock_request* requests, uint32_t count,
                                      uint32_t* submitted) {
  uint32_t taken = 0;
  const penstock_status submitted_status = session_call("submit to the queue", queue, [&](const GuardedSession::Use&) {
    const Submission submission{*queue, requests};
    return queue->requests->submit(count, make_request, &submission, taken);
  });
  if (submitted != nullptr) *submitted = taken;
  return submitted_status;
}

penstock_status penstock_queue_reap(penstock_queue* queue, penstock_completion* completions, uint32_t capacity,
                                    uint32_t least, int64_t timeout_ns, uint32_t* count) {
  constexpr const char* kStep = "reap from the queue";
  if (count != nullptr) *count = 0;
  return status_call(kStep, [&]() -> Status {
    if (queue == nullptr || count == nullptr || timeout_ns < -1) return failure(Code::invalid_argument, kStep);
    if (queue->guarded->is_inherited()) return failure(Code::closed, kStep);
    if (const Status status = core::check_array(completions, capacity); !status.ok()) return status;
    const GuardedSession::Use use(*queue->guarded);
    if (!use) queue->guarded->wait_closed();  // Requests that ended before can still be reaped.
    Completions reaped{completions};
    *count = queue->requests->reap(capacity, least, deadline_in(timeout_ns), &Completions::take, &reaped);
    return success();
  });
}

penstock_status penstock_queue_cancel(penstock_queue* queue, uint64_t cookie, uint32_t* canceled) {
  if (canceled != nullptr) *canceled = 0;
  return session_call("cancel requests", queue, [&](const GuardedSession::Use&) -> Status {
    const uint32_t count = queue->requests->cancel(cookie);
    if (canceled != nullptr) *canceled = count;
    return success();
  });
}

penstock_status penstock_queue_eventfd(penstock_queue* queue, int* fd) {
  constexpr const char* kStep = "watch the queue by a descriptor";
  if (fd != nullptr) *fd = -1;
  return session_call(kStep, queue, [&](const GuardedSession::Use&) -> Status {
    if (fd == nullptr) return failure(Code::invalid_argument, kStep);
    const core::Result<int> made = queue->requests->event_fd();
    if (made.ok()) *fd = *made;
    return made.status();
  });
}

}  // extern "C"
