// SPDX-License-Identifier: Apache-2.0

// The open queues of a session. A call that frees or deregisters memory first makes them finish the requests that use
// it, so that a queue may outlive the memory of requests that were not reaped. Thread-safe.
#pragma once

#include <list>

#include "base/mutex.h"
#include "core/memory.h"

namespace penstock::core {

class RequestQueue;

class OpenQueues {
 public:
  void add(RequestQueue& queue);
  // Returns when no other thread waits for this queue's requests. Then the caller may destroy the queue.
  void remove(RequestQueue& queue);
  // Returns when no request that was submitted before uses the memory.
  void wait_for(const MemoryPiece& memory);

 private:
  struct Entry {
    RequestQueue* queue = nullptr;
    unsigned waiting = 0;  // Number of threads that wait for this queue's requests.
  };

  Mutex mutex_;
  ConditionVariable changed_;
  // A list, so that an entry keeps its address while a thread waits for it.
  std::list<Entry> entries_ GUARDED_BY(mutex_);
};

}  // namespace penstock::core
