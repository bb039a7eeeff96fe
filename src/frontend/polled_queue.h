// SPDX-License-Identifier: Apache-2.0

// A request queue whose requests move in the calls of its user: a ChannelQueue (channel_queue.h), and the refusal of
// what that cannot do. Requests begin when they are submitted, so none can be canceled, and no eventfd signals
// their completion.
#pragma once

#include <memory>

#include "frontend/channel_queue.h"
#include "frontend/request_queue.h"

namespace penstock::core {

class PolledQueue final : public RequestQueue {
 public:
  // The same as ChannelQueue::open().
  static Result<std::unique_ptr<RequestQueue>> open(Session& session, unsigned depth, std::uint64_t request_bytes_max);

  Status submit(unsigned count, Maker make, const void* source, std::uint32_t& taken) override;
  unsigned reap(std::size_t room, unsigned least, Deadline deadline, Taker take, void* taker) override;
  unsigned cancel(std::uint64_t) override { return 0; }
  // Waits for all requests, since the queue does not know their memory.
  void wait_for(const MemoryPiece&) override { queue_->drain(); }
  Result<int> event_fd() override;

 private:
  explicit PolledQueue(std::unique_ptr<ChannelQueue> queue) : queue_(std::move(queue)) {}

  std::unique_ptr<ChannelQueue> queue_;
};

}  // namespace penstock::core
