// SPDX-License-Identifier: Apache-2.0

#include "capi/open_queues.h"

#include <algorithm>

#include "base/invariant.h"
#include "frontend/request_queue.h"

namespace penstock::core {

void OpenQueues::add(RequestQueue& queue) {
  const MutexLock lock(mutex_);
  entries_.push_back({&queue});
}

void OpenQueues::remove(RequestQueue& queue) {
  const MutexLock lock(mutex_);
  const auto is_it = [&](const Entry& entry) { return entry.queue == &queue; };
  const auto entry = std::find_if(entries_.begin(), entries_.end(), is_it);
  PENSTOCK_INVARIANT(entry != entries_.end());
  while (entry->waiting > 0) changed_.wait(mutex_);
  entries_.erase(entry);
}

// The lock is released while a queue works, so that others can be opened and closed.
void OpenQueues::wait_for(const MemoryPiece& memory) {
  if (memory.iov_len == 0) return;
  const MutexLock lock(mutex_);
  for (Entry& entry : entries_) {
    ++entry.waiting;
    {
      const MutexUnlock unlock(mutex_);
      entry.queue->wait_for(memory);
    }
    --entry.waiting;
    changed_.notify_all();
  }
}

}  // namespace penstock::core
