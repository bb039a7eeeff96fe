// SPDX-License-Identifier: Apache-2.0

// The two modes of a penstock_queue: the library's threads execute its requests, or its user's calls do.
#pragma once

#include <memory>
#include <span>

#include "capi/call.h"
#include "frontend/batch.h"

namespace penstock::core {

class QueueMode {
 public:
  virtual ~QueueMode() = default;
  // Submits in order; counts the accepted requests in `taken`.
  virtual Status submit(std::span<const QueuedRequest> requests, std::uint32_t& taken) = 0;
  // Writes at most `room` completions in the layout of their caller. Returns how many.
  virtual std::uint32_t reap(penstock_completion* completions, std::uint32_t room, std::uint32_t least,
                             Batch::Deadline deadline) = 0;
  virtual std::uint32_t cancel(std::uint64_t cookie) = 0;
  // Returns when no request that was submitted before uses the memory. Completions stay to be reaped.
  virtual void wait_for(const MemoryPiece& memory) = 0;
  virtual Result<int> event_fd() = 0;
};

Result<std::unique_ptr<QueueMode>> open_threaded(Frontends& frontends, std::uint32_t depth);
Result<std::unique_ptr<QueueMode>> open_polled(Session& session, std::uint32_t depth, std::uint64_t request_bytes_max);

}  // namespace penstock::core
