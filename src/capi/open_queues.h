// SPDX-License-Identifier: Apache-2.0

// The queues that a session's handles stand for. A call that gives memory back asks them to finish their requests into
// it first, so that a queue may outlive the memory of requests that were not reaped. Thread-safe.
#pragma once

#include <list>

#include "base/mutex.h"
#include "core/memory.h"

namespace penstock::core {

class QueueMode;

class OpenQueues {
 public:
  void add(QueueMode& queue);
  // Returns when no other thread waits for this queue's requests any more. The caller may destroy it then.
  void remove(QueueMode& queue);
  // Returns when no request that was submitted before uses the memory.
  void wait_for(const MemoryPiece& memory);

 private:
  struct Entry {
    QueueMode* queue = nullptr;
    unsigned waiting = 0;  // Threads that wait for its requests.
  };

  Mutex mutex_;
  ConditionVariable changed_;
  std::list<Entry> entries_ GUARDED_BY(mutex_);  // An entry that a thread waits for stays where it is.
};

}  // namespace penstock::core
