// Threads that help with large requests. They start with the first such request and hold nothing but an invitation:
// the thread that made the request always works on it itself, so it ends also when no worker ever comes.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "session/transfer.h"

namespace penstock::core {

class Workers {
 public:
  explicit Workers(unsigned count) : count_(count) {}
  ~Workers();

  // Returns when the transfer is over and nobody looks at it any more.
  void run(Transfer& transfer, unsigned helpers);

 private:
  static constexpr unsigned kInvitations = 64;  // Large requests at once that get help; more go on without.

  struct alignas(64) Invitation {
    std::atomic<bool> claimed{false};
    std::atomic<Transfer*> transfer{nullptr};
    std::atomic<std::uint32_t> guests{0};
    std::atomic<int> seats{0};  // For guests that help, and not only look.
  };

  void start();
  Invitation* invite(Transfer& transfer, unsigned helpers);
  void withdraw(Invitation& invitation);
  bool accept(Invitation& invitation);
  void loop();

  const unsigned count_;
  std::atomic<bool> started_{false};
  std::atomic<bool> stopping_{false};
  std::mutex start_mutex_;
  std::vector<pthread_t> threads_;
  std::array<Invitation, kInvitations> invitations_;
  std::atomic<std::uint32_t> calls_{0};
};

}  // namespace penstock::core
