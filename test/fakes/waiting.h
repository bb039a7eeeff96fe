// SPDX-License-Identifier: Apache-2.0

// How tests wait: until an expected event happens; a little while for one that must not happen; and how scripted work
// is slow. Tests sleep in no other way (test/lint/lint.py).
#pragma once

#include <chrono>
#include <thread>

namespace penstock {

// Waits until `there` returns true; returns false after 14 minutes, which counts as a hang, and is less than ctest's
// limit of 15.
template <typename There>
[[nodiscard]] bool wait_until(There there) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(14);
  while (!there()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Gives a fault time to happen. On a slow machine that may be too short: then a fault is missed, but a correct test
// still passes.
inline void give_time_to_go_wrong(std::chrono::milliseconds time = std::chrono::milliseconds(20)) {
  std::this_thread::sleep_for(time);
}

// Simulates work that takes this long.
inline void be_slow(std::chrono::nanoseconds time) { std::this_thread::sleep_for(time); }

}  // namespace penstock
