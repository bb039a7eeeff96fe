// SPDX-License-Identifier: Apache-2.0

// The two modes of a penstock_queue: its requests are carried out by the library's threads, or by its user's calls.
#pragma once

#include <memory>
#include <span>

#include "capi/call.h"
#include "frontend/batch.h"

namespace penstock::core {

class QueueMode {
 public:
  virtual ~QueueMode() = default;
  // In their order; counts in `taken` how many it took.
  virtual Status submit(std::span<const QueuedRequest> requests, std::uint32_t& taken) = 0;
  // Writes at most `room` completions in the layout of their caller. Returns how many.
  virtual std::uint32_t reap(penstock_completion* completions, std::uint32_t room, std::uint32_t least,
                             Batch::Deadline deadline) = 0;
  virtual std::uint32_t cancel(std::uint64_t cookie) = 0;
  // Returns when no request that was submitted before uses the memory. Its completions are reaped as all others are.
  virtual void wait_for(const MemoryPiece& memory) = 0;
  virtual Result<int> event_fd() = 0;
};

Result<std::unique_ptr<QueueMode>> open_threaded(Frontends& frontends, std::uint32_t depth);
Result<std::unique_ptr<QueueMode>> open_polled(Session& session, std::uint32_t depth, std::uint64_t request_bytes_max);

}  // namespace penstock::core
