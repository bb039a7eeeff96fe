// SPDX-License-Identifier: Apache-2.0

#include "engine/workers.h"

#include <utility>

#include "base/thread.h"
#include "engine/look_out.h"

namespace penstock::core {

Workers::~Workers() {
  stopping_.store(true);
  calls_.fetch_add(1);
  calls_.notify_all();
  for (const pthread_t thread : threads_) ::pthread_join(thread, nullptr);
}

// A thread that cannot be had is done without.
void Workers::start() {
  if (started_.load(std::memory_order_acquire)) return;
  const MutexLock lock(start_mutex_);
  if (started_.load(std::memory_order_relaxed)) return;
  const auto body = [](void* workers) { static_cast<Workers*>(workers)->loop(); };
  threads_.reserve(count_);
  for (pthread_t thread; threads_.size() < count_ && start_thread(thread, "penstock-work", body, this);) {
    threads_.push_back(thread);
  }
  started_.store(true, std::memory_order_release);
}

void Workers::run(Transfer& transfer, unsigned helpers, const Device* device) {
  start();
  Invitation* invitation = helpers > 0 ? invite(transfer, helpers, device) : nullptr;
  transfer.work();
  if (invitation != nullptr) withdraw(*invitation);
  transfer.finish();
}

Workers::Invitation* Workers::invite(Transfer& transfer, unsigned helpers, const Device* device) {
  for (Invitation& invitation : invitations_) {
    if (invitation.claimed.load(std::memory_order_relaxed) || invitation.claimed.exchange(true)) continue;
    invitation.seats.store(static_cast<int>(helpers));
    invitation.device = device;
    invitation.transfer.store(&transfer);
    calls_.fetch_add(1);
    for (unsigned i = 0; i < helpers; ++i) calls_.notify_one();
    return &invitation;
  }
  return nullptr;
}

// A visitor counts itself in before it looks at the transfer. So once the transfer is taken away, whoever is not
// counted can only find nothing; all four operations are sequentially consistent for that.
void Workers::withdraw(Invitation& invitation) {
  invitation.transfer.store(nullptr);
  // They are nearly through, as this thread is.
  if (looks_out_) (void)look_out([&] { return invitation.visitors.load() == 0; }, kLongPatience);
  for (std::uint32_t visitors = invitation.visitors.load(); visitors != 0; visitors = invitation.visitors.load()) {
    invitation.visitors.wait(visitors);
  }
  invitation.claimed.store(false);
}

bool Workers::accept(Invitation& invitation, ThreadPlace& place) {
  if (invitation.transfer.load(std::memory_order_relaxed) == nullptr) return false;
  invitation.visitors.fetch_add(1);
  Transfer* transfer = invitation.transfer.load();
  // Also a thread that was not called for this one may come by, but no more help than were invited.
  const bool seated = transfer != nullptr && invitation.seats.fetch_sub(1) > 0;
  if (seated && invitation.device != nullptr) place.stay_near(invitation.device->facts().pci_address);
  else if (seated && placement_.is_fixed()) place.stay_near("");
  const bool helped = seated && transfer->help();
  if (invitation.visitors.fetch_sub(1) == 1) invitation.visitors.notify_all();
  return helped;
}

void Workers::loop() {
  ThreadPlace place(placement_);
  bool looks = false;
  while (!stopping_.load()) {
    const std::uint32_t seen = calls_.load();
    bool worked = false;
    for (Invitation& invitation : invitations_) worked |= accept(invitation, place);
    if (worked) looks = looks_out_;
    if (worked || stopping_.load()) continue;
    // Once for each time it was of use: nobody looks out for what others are soon enough for.
    const bool is_called = std::exchange(looks, false) && look_out([&] { return calls_.load() != seen; });
    if (!is_called) calls_.wait(seen);
  }
}

}  // namespace penstock::core
