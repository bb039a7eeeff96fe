// SPDX-License-Identifier: Apache-2.0

// Where memory runs out. The core throws nothing by itself, but what the standard library throws for want of memory
// unwinds through it, and lets go of what was held on the way. It ends here: in every exported call, and in what
// threads of our own do.
#pragma once

#include <new>

namespace penstock::core {

// What work() gives, or instead() where there was no memory for it.
template <typename Work, typename Instead>
auto unless_short_of_memory(Work&& work, Instead&& instead) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return instead();
  }
}

// Of whoever asked the kernel himself, and has no status to return.
[[noreturn]] inline void memory_is_short() { throw std::bad_alloc(); }

}  // namespace penstock::core
