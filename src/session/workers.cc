#include "session/workers.h"

#include <csignal>
#include <cstdio>

namespace penstock::core {

Workers::~Workers() {
  stopping_.store(true);
  calls_.fetch_add(1);
  calls_.notify_all();
  for (const pthread_t thread : threads_) ::pthread_join(thread, nullptr);
}

// Threads get no signals: those are the application's. A thread that cannot be had is done without.
void Workers::start() {
  if (started_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(start_mutex_);
  if (started_.load(std::memory_order_relaxed)) return;
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  for (unsigned i = 0; i < count_; ++i) {
    pthread_t thread;
    const auto body = [](void* workers) -> void* {
      static_cast<Workers*>(workers)->loop();
      return nullptr;
    };
    if (::pthread_create(&thread, nullptr, body, this) != 0) break;
    char name[32];
    std::snprintf(name, sizeof name, "penstock-%u", i);
    (void)::pthread_setname_np(thread, name);
    threads_.push_back(thread);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  started_.store(true, std::memory_order_release);
}

void Workers::run(Transfer& transfer, unsigned helpers) {
  start();
  Invitation* invitation = helpers > 0 ? invite(transfer, helpers) : nullptr;
  transfer.work();
  if (invitation != nullptr) withdraw(*invitation);
  transfer.finish_edges();
}

Workers::Invitation* Workers::invite(Transfer& transfer, unsigned helpers) {
  for (Invitation& invitation : invitations_) {
    if (invitation.claimed.load(std::memory_order_relaxed) || invitation.claimed.exchange(true)) continue;
    invitation.transfer.store(&transfer);
    calls_.fetch_add(1);
    for (unsigned i = 0; i < helpers; ++i) calls_.notify_one();
    return &invitation;
  }
  return nullptr;
}

// A guest counts itself in before it looks at the transfer. So once the transfer is taken away, whoever is not
// counted can only find nothing; all four operations are sequentially consistent for that.
void Workers::withdraw(Invitation& invitation) {
  invitation.transfer.store(nullptr);
  for (std::uint32_t guests = invitation.guests.load(); guests != 0; guests = invitation.guests.load()) {
    invitation.guests.wait(guests);
  }
  invitation.claimed.store(false);
}

bool Workers::accept(Invitation& invitation) {
  if (invitation.transfer.load(std::memory_order_relaxed) == nullptr) return false;
  invitation.guests.fetch_add(1);
  Transfer* transfer = invitation.transfer.load();
  const bool helped = transfer != nullptr && transfer->help();
  if (invitation.guests.fetch_sub(1) == 1) invitation.guests.notify_all();
  return helped;
}

void Workers::loop() {
  while (!stopping_.load()) {
    const std::uint32_t seen = calls_.load();
    bool worked = false;
    for (Invitation& invitation : invitations_) worked |= accept(invitation);
    if (!worked && !stopping_.load()) calls_.wait(seen);
  }
}

}  // namespace penstock::core
