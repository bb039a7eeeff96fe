// SPDX-License-Identifier: Apache-2.0

// Threads that help with large requests. They start with the first such request and hold nothing but an job_slot:
// the thread that made the request always works on it itself, so it ends also when no worker ever comes.
//
// One set of workers serves all devices of the process. A worker moves to the CPUs near the device that it helps with
// (device/locality.h) when that is another one than before: with one GPU in the process, once. Where the user named
// CPUs or a node (device/placement.h), it moves there once, for host memory as well.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <vector>

#include "base/mutex.h"
#include "device/locality.h"
#include "engine/transfer.h"

namespace penstock::core {

class Workers {
 public:
  // The placement lives as long.
  Workers(unsigned count, const Placement& placement, bool looks_out)
      : count_(count), placement_(placement), spins_(looks_out) {}
  ~Workers();

  // Returns when the transfer is over and nobody looks at it any more. `device` is whose memory it moves; null for
  // host memory.
  void run(Transfer& transfer, unsigned helpers, const Device* device = nullptr);

 private:
  static constexpr unsigned kJobSlots = 64;  // Large requests at once that get help; more go on without.

  struct alignas(64) JobSlot {
    std::atomic<bool> claimed{false};
    std::atomic<Transfer*> transfer{nullptr};
    std::atomic<std::uint32_t> active_helpers{0};
    std::atomic<int> open_places{0};  // For active_helpers that help, and not only look.
    const Device* device = nullptr;   // From run(); written while no thread is invited.
  };

  void start();
  JobSlot* offer(Transfer& transfer, unsigned helpers, const Device* device);
  void withdraw(JobSlot& job_slot);
  bool accept(JobSlot& job_slot, ThreadPlace& place);
  void loop();

  const unsigned count_;
  const Placement& placement_;
  const bool spins_;  // For more work before they sleep.
  std::atomic<bool> started_{false};
  std::atomic<bool> stopping_{false};
  Mutex start_mutex_;
  std::vector<pthread_t> threads_ GUARDED_BY(start_mutex_);
  std::array<JobSlot, kJobSlots> job_slots_;
  std::atomic<std::uint32_t> calls_{0};
};

}  // namespace penstock::core
