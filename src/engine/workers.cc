// SPDX-License-Identifier: Apache-2.0

#include "engine/workers.h"

#include <utility>

#include "base/thread.h"
#include "engine/spin_wait.h"

namespace penstock::core {

Workers::~Workers() {
  stopping_.store(true);
  calls_.fetch_add(1);
  calls_.notify_all();
  for (const pthread_t thread : threads_) ::pthread_join(thread, nullptr);
}

// Starts as many threads as it can get.
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

void Workers::run(SharedFlight& shared, unsigned helpers, const Device* device) {
  start();
  JobSlot* job_slot = helpers > 0 ? offer(shared, helpers, device) : nullptr;
  shared.work();
  if (job_slot != nullptr) withdraw(*job_slot);
  shared.move_rest();
}

Workers::JobSlot* Workers::offer(SharedFlight& shared, unsigned helpers, const Device* device) {
  for (JobSlot& job_slot : job_slots_) {
    if (job_slot.claimed.load(std::memory_order_relaxed) || job_slot.claimed.exchange(true)) continue;
    job_slot.open_places.store(static_cast<int>(helpers));
    job_slot.device = device;
    job_slot.shared.store(&shared);
    calls_.fetch_add(1);
    for (unsigned i = 0; i < helpers; ++i) calls_.notify_one();
    return &job_slot;
  }
  return nullptr;
}

// A helper adds itself to the count before it loads `shared`. So once `shared` is null, a helper that was not counted
// finds no work; all four operations are sequentially consistent for that.
void Workers::withdraw(JobSlot& job_slot) {
  job_slot.shared.store(nullptr);
  // The helpers have nearly finished, as this thread has.
  if (spins_) (void)spin_wait([&] { return job_slot.active_helpers.load() == 0; }, kLongSpinTime);
  for (std::uint32_t active_helpers = job_slot.active_helpers.load(); active_helpers != 0;
       active_helpers = job_slot.active_helpers.load()) {
    job_slot.active_helpers.wait(active_helpers);
  }
  job_slot.claimed.store(false);
}

bool Workers::accept(JobSlot& job_slot, ThreadPlace& place) {
  if (job_slot.shared.load(std::memory_order_relaxed) == nullptr) return false;
  job_slot.active_helpers.fetch_add(1);
  SharedFlight* const shared = job_slot.shared.load();
  // A thread that was not called for this flight may come by, but no more threads help than were invited.
  const bool seated = shared != nullptr && job_slot.open_places.fetch_sub(1) > 0;
  if (seated && job_slot.device != nullptr) place.stay_near(job_slot.device->facts().pci_address);
  else if (seated && placement_.is_fixed()) place.stay_near("");
  const bool helped = seated && shared->help();
  if (job_slot.active_helpers.fetch_sub(1) == 1) job_slot.active_helpers.notify_all();
  return helped;
}

void Workers::loop() {
  ThreadPlace place(placement_);
  bool looks = false;
  while (!stopping_.load()) {
    const std::uint32_t seen = calls_.load();
    bool worked = false;
    for (JobSlot& job_slot : job_slots_) worked |= accept(job_slot, place);
    if (worked) looks = spins_;
    if (worked || stopping_.load()) continue;
    // Spins once after each time that it was of use: a thread does not spin if others are quick enough.
    const bool is_called = std::exchange(looks, false) && spin_wait([&] { return calls_.load() != seen; });
    if (!is_called) calls_.wait(seen);
  }
}

}  // namespace penstock::core
