// SPDX-License-Identifier: Apache-2.0

// What the system calls a thread, with its stack and its thread-local values, but run by one thread of the system for
// all: it goes from fiber to fiber in some ten instructions, where waking another thread takes microseconds. The
// thread that a fiber was made of sleeps until the fiber is over. For the scheduler alone, on x86-64.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace penstock::simulation {

class Fiber {
 public:
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Once, before any other, by the thread that is to run all of them.
  static void begin();
  // This one is what the calling thread does.
  void adopt();
  // Of a new thread, whose `body` begins when the fiber is first gone to, and must not return. Returns an errno.
  int make(const pthread_attr_t* attributes, void (*body)(void*), void* argument);
  // Leaves this one, which runs, until it is gone to again.
  void go_to(Fiber& next);
  // It is over: its thread ends. Another one must run.
  void end();

 private:
  static void* sleep(void* fiber);

  void* stack_ = nullptr;      // Where it goes on.
  std::uintptr_t values_ = 0;  // What the processor finds its thread-local values by.
  pthread_t thread_{};
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  std::atomic<std::uint32_t> state_{0};
};

}  // namespace penstock::simulation
