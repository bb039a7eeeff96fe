// SPDX-License-Identifier: Apache-2.0

// Gives threads numbers, by which they are spread over shards.
#pragma once

#include <atomic>

namespace penstock::core {

// How many threads have one, which is more than each of them.
inline std::atomic<unsigned> threads_numbered{0};

// A small number that differs between threads as long as there are few of them.
inline unsigned thread_number() {
  thread_local const unsigned number = threads_numbered.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace penstock::core
