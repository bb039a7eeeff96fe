// SPDX-License-Identifier: Apache-2.0

// Copies between a request's memory and the library's host memory, given to a queue in batches. Memory in pieces needs
// a copy for each piece. One thread at a time uses it; allocates nothing once made.
#pragma once

#include <algorithm>
#include <vector>

#include "core/io.h"
#include "core/memory.h"
#include "device/device.h"

namespace penstock::core {

inline Direction direction_of(Op op) { return op == Op::read ? Direction::to_device : Direction::to_host; }

class CopyBatch {
 public:
  // `copies` is the most that are queued together if there are no pieces.
  explicit CopyBatch(std::size_t copies) { copies_.reserve(std::max(copies, kPiecesTogether)); }

  // Adds copies of page-locked host memory. After a failure some that were added may be under way.
  Status add(CopyQueue& queue, Direction direction, const RequestMemory& memory, std::byte* host, std::uint64_t size) {
    Status status;
    memory.each_place(size, [&](std::byte* address, std::uint64_t here) {
      if (copies_.size() == copies_.capacity() && status.ok()) status = queue_all(queue, direction);
      if (status.ok()) copies_.push_back({address, host, here, true, memory.is_fresh()});
      host += here;
    });
    return status;
  }

  // Queues all copies that were added and not queued yet.
  Status queue_all(CopyQueue& queue, Direction direction) {
    const Status status = copies_.empty() ? success() : queue.copy_many(copies_, direction);
    copies_.clear();
    return status;
  }

 private:
  static constexpr std::size_t kPiecesTogether = 128;  // A queue can make this many small copies with one launch.
  std::vector<Copy> copies_;
};

// Makes one copy from start to end, the shortest way.
inline Status copy_and_wait(CopyQueue& queue, CopyBatch& batch, Op op, const RequestMemory& memory, std::byte* host,
                            std::uint64_t size) {
  const Direction direction = direction_of(op);
  if (!memory.is_in_pieces()) return queue.copy_and_wait({memory.address(), host, size, true}, direction);
  Status status = batch.add(queue, direction, memory, host, size);
  const Status queued = batch.queue_all(queue, direction);
  return wait_for_copies(queue, status.ok() ? queued : status);
}

}  // namespace penstock::core
