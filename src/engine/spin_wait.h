// SPDX-License-Identifier: Apache-2.0

// Looks for a while before the thread sleeps: waking up takes longer than most waits here.
#pragma once

#include <chrono>

namespace penstock::core {

inline constexpr std::chrono::microseconds kSpinTime{30};
// For few threads, whose looking takes little CPU from others.
inline constexpr std::chrono::microseconds kLongSpinTime{100};

// Returns true as soon as `there` does; false after about `spin_time`.
template <typename There>
bool spin_wait(There there, std::chrono::microseconds spin_time = kSpinTime) {
  constexpr int kLooksToAClock = 16;
  const auto end = std::chrono::steady_clock::now() + spin_time;
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
