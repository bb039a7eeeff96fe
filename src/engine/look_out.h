// SPDX-License-Identifier: Apache-2.0

// Looks a while before going to sleep: being woken takes longer than most of what is waited for here.
#pragma once

#include <chrono>

namespace penstock::core {

// True as soon as `there` says so; false after about 30 microseconds.
template <typename There>
bool look_out(There there) {
  constexpr auto kPatience = std::chrono::microseconds(30);
  constexpr int kLooksToAClock = 16;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    for (int i = 0; i < kLooksToAClock; ++i) {
      if (there()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace penstock::core
