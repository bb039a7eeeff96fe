// SPDX-License-Identifier: Apache-2.0

// Looks a while before going to sleep: being woken takes longer than most of what is waited for here.
#pragma once

#include <chrono>

namespace penstock::core {

inline constexpr std::chrono::microseconds kPatience{30};
inline constexpr std::chrono::microseconds kLongPatience{100};  // For few threads, which take much off the others.

// True as soon as `there` says so; false after about so long.
template <typename There>
bool spin_wait(There there, std::chrono::microseconds patience = kPatience) {
  constexpr int kLooksToAClock = 16;
  const auto end = std::chrono::steady_clock::now() + patience;
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
