// SPDX-License-Identifier: Apache-2.0

// Threads that help with large requests. They start with the first such request and hold nothing but an invitation:
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
      : count_(count), placement_(placement), looks_out_(looks_out) {}
  ~Workers();

  // Returns when the transfer is over and nobody looks at it any more. `device` is whose memory it moves; null for
  // host memory.
  void run(Transfer& transfer, unsigned helpers, const Device* device = nullptr);

 private:
  static constexpr unsigned kInvitations = 64;  // Large requests at once that get help; more go on without.

  struct alignas(64) Invitation {
    std::atomic<bool> claimed{false};
    std::atomic<Transfer*> transfer{nullptr};
    std::atomic<std::uint32_t> visitors{0};
    std::atomic<int> seats{0};       // For visitors that help, and not only look.
    const Device* device = nullptr;  // From run(); written while no thread is invited.
  };

  void start();
  Invitation* invite(Transfer& transfer, unsigned helpers, const Device* device);
  void withdraw(Invitation& invitation);
  bool accept(Invitation& invitation, ThreadPlace& place);
  void loop();

  const unsigned count_;
  const Placement& placement_;
  const bool looks_out_;  // For more work before they sleep.
  std::atomic<bool> started_{false};
  std::atomic<bool> stopping_{false};
  Mutex start_mutex_;
  std::vector<pthread_t> threads_ GUARDED_BY(start_mutex_);
  std::array<Invitation, kInvitations> invitations_;
  std::atomic<std::uint32_t> calls_{0};
};

}  // namespace penstock::core
