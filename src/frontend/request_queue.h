// SPDX-License-Identifier: Apache-2.0

// A queue takes requests and gives back their outcomes later. There are two kinds: in a threaded queue
// (threaded_queue.h) the library's threads move the requests, in a polled queue (polled_queue.h) the calls of its user.
// penstock_queue is a face of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/report.h"
#include "frontend/queued_request.h"

namespace penstock::core {

class RequestQueue {
 public:
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  // A function that is given the outcome of a request. It must not call the queue.
  using Taker = void (*)(void* taker, std::uint64_t cookie, const Outcome& outcome);

  virtual ~RequestQueue() = default;
  // Makes the request `index` of a submission from its caller's own form, in an empty one. It must not call the queue.
  using Maker = Status (*)(const void* source, unsigned index, QueuedRequest& made);
  // Makes and submits requests in order until one cannot be made or is refused, and counts the others in `taken`.
  // Code::limit: the queue is full; reaping makes room.
  virtual Status submit(unsigned count, Maker make, const void* source, std::uint32_t& taken) = 0;
  // Hands at most `room` outcomes to take(taker, ...), and returns their number. Waits until the deadline for `least`
  // of them, or for as many as are outstanding if that is fewer.
  virtual unsigned reap(std::size_t room, unsigned least, Deadline deadline, Taker take, void* taker) = 0;
  // Ends requests with this cookie that have not begun with `canceled`; they are reported like others. Returns their
  // number.
  virtual unsigned cancel(std::uint64_t cookie) = 0;
  // Returns when no request submitted earlier uses the memory. The requests are reported as usual.
  virtual void wait_for(const MemoryPiece& memory) = 0;
  // A descriptor for poll(2) and epoll(7), made by the first call and closed with the queue: it is readable exactly
  // while there is an outcome to reap. Only the queue reads and writes it.
  virtual Result<int> event_fd() = 0;
};

}  // namespace penstock::core
