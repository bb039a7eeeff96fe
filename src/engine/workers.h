// SPDX-License-Identifier: Apache-2.0

// Threads that help with large requests. They start with the first such request. A request claims a job slot while it
// runs, and its calling thread always works on it, too, so it ends even if no worker is free.
//
// One set of workers serves all devices of the process. A worker moves to the CPUs near the device that it helps with
// (device/locality.h) if it was near another one: only once if the process uses one GPU. If the user named CPUs or a
// node (device/placement.h), it moves there once, for host memory as well.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <vector>

#include "base/mutex.h"
#include "device/locality.h"
#include "engine/shared_flight.h"

namespace penstock::core {

class Workers {
 public:
  // `placement` must outlive this.
  Workers(unsigned count, const Placement& placement, bool threads_spin)
      : count_(count), placement_(placement), spins_(threads_spin) {}
  ~Workers();

  // Returns when the flight has ended and no worker looks at it any more. `device` is the owner of its memory; null
  // for host memory.
  void run(SharedFlight& shared, unsigned helpers, const Device* device = nullptr);

 private:
  // The most large requests that get help at the same time; others do without.
  static constexpr unsigned kJobSlots = 64;

  struct alignas(64) JobSlot {
    std::atomic<bool> claimed{false};
    std::atomic<SharedFlight*> shared{nullptr};
    std::atomic<std::uint32_t> active_helpers{0};
    std::atomic<int> open_places{0};  // Limits how many of active_helpers help; the others only look.
    const Device* device = nullptr;   // The device of run(); written while no thread is invited.
  };

  void start();
  JobSlot* offer(SharedFlight& shared, unsigned helpers, const Device* device);
  void withdraw(JobSlot& job_slot);
  bool accept(JobSlot& job_slot, ThreadPlace& place);
  void loop();

  const unsigned count_;
  const Placement& placement_;
  const bool spins_;  // Workers spin for more work before they sleep.
  std::atomic<bool> started_{false};
  std::atomic<bool> stopping_{false};
  Mutex start_mutex_;
  std::vector<pthread_t> threads_ GUARDED_BY(start_mutex_);
  std::array<JobSlot, kJobSlots> job_slots_;
  std::atomic<std::uint32_t> calls_{0};
};

}  // namespace penstock::core
