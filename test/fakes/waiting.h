// SPDX-License-Identifier: Apache-2.0

// How tests wait: for what must happen, until it has; for what must not, a little while; and how what they script is
// slow. They sleep in no other way (test/lint/lint.py).
#pragma once

#include <chrono>
#include <thread>

namespace penstock {

// True as soon as `there` says so; false if it did not come true in 14 minutes, which is a hang, and
// less than the 15 that ctest gives a test.
template <typename There>
[[nodiscard]] bool wait_until(There there) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(14);
  while (!there()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// What must not happen gets time to happen. On a slow machine that may be too little: then a fault is overlooked, and
// a test that is right passes all the same.
inline void give_time_to_go_wrong(std::chrono::milliseconds time = std::chrono::milliseconds(20)) {
  std::this_thread::sleep_for(time);
}

// Scripted work that takes as long.
inline void be_slow(std::chrono::nanoseconds time) { std::this_thread::sleep_for(time); }

}  // namespace penstock
