// SPDX-License-Identifier: Apache-2.0

// Ends the process with diagnostics when a thread of a stress test makes no progress, so that a hang is a failure with
// a place. Prints every thread's last step, the kernel function in which it waits, and the stacks of threads that take
// signals. Also prints the seed when a signal ends the process.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace penstock::stress {

class Watchdog {
 public:
  static constexpr unsigned kPlaces = 16;

  // `note` is printed with whatever goes wrong: how to run this again.
  Watchdog(std::string note, unsigned limit_s);
  ~Watchdog();

  // The thread at `place` begins a step; a literal.
  void step(unsigned place, const char* what) {
    places_[place].what.store(what, std::memory_order_relaxed);
    places_[place].steps.fetch_add(1, std::memory_order_relaxed);
  }
  // It is watched no more.
  void leave(unsigned place) { places_[place].what.store(nullptr, std::memory_order_relaxed); }

 private:
  struct alignas(64) Place {
    std::atomic<const char*> what{nullptr};
    std::atomic<std::uint64_t> steps{0};
  };

  void watch();
  [[noreturn]] void give_up(unsigned place);

  const std::string note_;
  const unsigned limit_s_;
  std::array<Place, kPlaces> places_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace penstock::stress
