// SPDX-License-Identifier: Apache-2.0

#include "base/process.h"

#include <pthread.h>

#include <atomic>

namespace penstock::core {
namespace {

std::atomic<std::uint32_t> forks{0};

}  // namespace

std::uint32_t fork_count() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
  static_cast<void>(registered);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace penstock::core
