// SPDX-License-Identifier: Apache-2.0

// Handles shortages of memory. The core throws nothing by itself, but the standard library's bad_alloc unwinds through
// it and releases what was held. Every exported call, and the main functions of our own threads, catch it.
#pragma once

#include <new>

namespace penstock::core {

// Returns work(), or instead() if there was no memory for work().
template <typename Work, typename Instead>
auto unless_short_of_memory(Work&& work, Instead&& instead) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return instead();
  }
}

// For code that asked the kernel for memory itself, and has no status to return.
[[noreturn]] inline void memory_is_short() { throw std::bad_alloc(); }

}  // namespace penstock::core
