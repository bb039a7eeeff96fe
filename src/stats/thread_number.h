// SPDX-License-Identifier: Apache-2.0

// Gives threads numbers, by which they are spread over shards.
#pragma once

#include <atomic>

namespace penstock::core {

// A small number that differs between threads as long as there are few of them.
inline unsigned thread_number() {
  static std::atomic<unsigned> next{0};
  thread_local const unsigned number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace penstock::core
