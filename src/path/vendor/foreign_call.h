// SPDX-License-Identifier: Apache-2.0

// A call of another maker's code, on its own thread, that may never return: the caller waits for a while and then gives
// it up. The thread stays in the call; if the call ever returns, the thread stops for good before it touches anything
// of the library.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace penstock::core {

class ForeignCall {
 public:
  // Called once, right before the foreign code. Until come_back() the thread may touch only its own stack: its caller
  // may be gone.
  void go_out();
  // Called right after the foreign code. Returns if the caller still waits; the caller then waits to the end.
  void come_back();

  // Runs `work`, which calls these two, inside a thread. Returns false if it was given up in the foreign code: memory
  // and descriptors that the foreign code uses must then never be freed. The library's own code is always waited for.
  static bool run(std::chrono::milliseconds patience, std::function<void(ForeignCall&)> work);

 private:
  struct State;
  explicit ForeignCall(State& state) : state_(state) {}

  State& state_;
};

}  // namespace penstock::core
