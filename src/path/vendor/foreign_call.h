// SPDX-License-Identifier: Apache-2.0

// A call of another maker's code, on a thread of its own, that may never come back: its caller waits for a while and
// then gives it up. The thread stays in the call; if it ever comes back it stops for good, before it touches anything
// of ours.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace penstock::core {

class ForeignCall {
 public:
  // Right before the foreign code, once. Until come_back() the thread may touch nothing but its own: its caller may be
  // gone.
  void go_out();
  // Right behind the foreign code. Returns if the caller still waits, which from then on waits to the end.
  void come_back();

  // Runs `work`, which calls these two, inside a thread. False if it was given up while outside: memory and descriptors
  // that the foreign code knows have to stay as they are from then on. Our own code is waited for.
  static bool run(std::chrono::milliseconds patience, std::function<void(ForeignCall&)> work);

 private:
  struct State;
  explicit ForeignCall(State& state) : state_(state) {}

  State& state_;
};

}  // namespace penstock::core
