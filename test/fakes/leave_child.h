// SPDX-License-Identifier: Apache-2.0

// How a forked child of a test ends: nothing of what its parent would do at the end is done. A build that counts which
// lines run (the preset `coverage`) writes its counts first, which a process does by itself only where it exits.
#pragma once

#include <unistd.h>

extern "C" __attribute__((weak)) void __gcov_dump();

namespace penstock {

[[noreturn]] inline void leave_child(int status) {
  if (&__gcov_dump != nullptr) __gcov_dump();
  ::_exit(status);
}

}  // namespace penstock
