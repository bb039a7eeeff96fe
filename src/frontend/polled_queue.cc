// SPDX-License-Identifier: Apache-2.0

#include "frontend/polled_queue.h"

#include <algorithm>

namespace penstock::core {
namespace {

// After so many completions more may have arrived, which this call can return as well: larger batches cost less.
constexpr std::size_t kLookAgainAfter = 16;

Status check_polled(const QueuedRequest& request) {
  if (request.striped != nullptr)
    return failure(Code::unsupported, "submit a request on a striped object to a polled queue; use its members");
  if (!request.pieces.empty())
    return failure(Code::unsupported, "submit pieces of memory to a polled queue, which takes none");
  return has_passed(request.deadline) ? failure(Code::timed_out, "begin the request") : success();
}

}  // namespace

Result<std::unique_ptr<RequestQueue>> PolledQueue::open(Session& session, unsigned depth,
                                                        std::uint64_t request_bytes_max) {
  Result<std::unique_ptr<ChannelQueue>> queue = ChannelQueue::open(session, depth, request_bytes_max);
  if (!queue.ok()) return queue.status();
  return std::unique_ptr<RequestQueue>(new PolledQueue(std::move(*queue)));
}

Status PolledQueue::submit(unsigned count, Maker make, const void* source, std::uint32_t& taken) {
  for (; taken < count; ++taken) {
    QueuedRequest one;
    if (const Status status = make(source, taken, one); !status.ok()) return status;
    if (const Status status = check_polled(one); !status.ok()) return status;
    if (const Status status = queue_->submit(one.request, one.cookie); !status.ok()) return status;
  }
  return success();
}

unsigned PolledQueue::reap(std::size_t room, unsigned least, Deadline deadline, Taker take, void* taker) {
  unsigned count = 0;
  while (count < room) {
    const std::size_t wanted = std::min(room - count, kLookAgainAfter);
    const unsigned taken = queue_->reap(wanted, least > count ? least - count : 0, deadline, take, taker);
    count += taken;
    if (taken < wanted) break;
  }
  return count;
}

Result<int> PolledQueue::event_fd() {
  return failure(Code::unsupported, "watch a polled queue by a descriptor, which only queues with threads have");
}

}  // namespace penstock::core
