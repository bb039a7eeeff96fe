// SPDX-License-Identifier: Apache-2.0

// Objects that callers know by a number, such as files. A number is never reused, so a stale or invented one is
// recognized without touching freed memory. Pinning and unpinning take no lock; removing waits for the pins. A thread
// with the only pin may hold the object exclusively: others then wait before they pin it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace penstock::core {

template <typename T>
class HandleTable {
 public:
  static constexpr std::uint32_t kCountMax = 1u << 20;

  HandleTable() = default;
  ~HandleTable() {
    for (std::uint32_t index = 0; index < used_; ++index) delete entry(index).value.load();
    for (auto& block : blocks_) delete[] block.load();
  }

  Result<std::uint64_t> insert(std::unique_ptr<T> value) {
    const MutexLock lock(mutex_);
    std::uint32_t index = used_;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else if (used_ == kCountMax) {
      return failure(Code::limit, "open or register one more");
    } else {
      if (index % kBlock == 0) add_block(index / kBlock);
      ++used_;
    }
    Entry& slot = entry(index);
    slot.value.store(value.release(), std::memory_order_relaxed);
    const std::uint64_t state = slot.state.load(std::memory_order_relaxed) | kLive;
    slot.state.store(state, std::memory_order_release);
    return number(index, state);
  }

  // Pins an object, which stays until it is unpinned. Null if there is no such object (any more).
  T* pin(std::uint64_t handle) {
    Entry* slot = find(handle);
    if (slot == nullptr) return nullptr;
    std::uint64_t state = slot->state.load(std::memory_order_acquire);
    for (;;) {
      if ((state & kLive) == 0 || generation(state) != handle >> 32) return nullptr;
      if ((state & kHeld) != 0) {
        slot->state.wait(state, std::memory_order_acquire);
        state = slot->state.load(std::memory_order_acquire);
      } else if (slot->state.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) {
        return slot->value.load(std::memory_order_relaxed);
      }
    }
  }

  // The caller itself has a pin on the object. Returns true if no other thread has a pin; then no other gets one until
  // let_go().
  bool hold(std::uint64_t handle) {
    Entry* slot = find(handle);
    std::uint64_t state = slot->state.load(std::memory_order_acquire);
    while ((state & (kLive | kHeld | kPins)) == (kLive | 1)) {
      if (slot->state.compare_exchange_weak(state, state | kHeld, std::memory_order_acq_rel)) return true;
    }
    return false;
  }
  void let_go(std::uint64_t handle) {
    Entry* slot = find(handle);
    slot->state.fetch_and(~kHeld, std::memory_order_acq_rel);
    slot->state.notify_all();
  }

  void unpin(std::uint64_t handle) {
    Entry* slot = find(handle);
    const std::uint64_t before = slot->state.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & kLive) == 0) slot->state.notify_all();
  }

  // Lets nobody pin the object any more; returns null if another thread retired it first. Call wait_and_take()
  // afterwards.
  T* retire(std::uint64_t handle) {
    Entry* slot = find(handle);
    if (slot == nullptr) return nullptr;
    std::uint64_t state = slot->state.load(std::memory_order_acquire);
    do {
      if ((state & kLive) == 0 || generation(state) != handle >> 32) return nullptr;
    } while (!slot->state.compare_exchange_weak(state, state & ~kLive, std::memory_order_acq_rel));
    return slot->value.load(std::memory_order_relaxed);
  }

  // Call it after retire(): waits until nobody has the object pinned, and returns it.
  std::unique_ptr<T> wait_and_take(std::uint64_t handle) {
    Entry* slot = find(handle);
    std::uint64_t state = slot->state.load(std::memory_order_acquire);
    while ((state & kPins) != 0) {
      slot->state.wait(state, std::memory_order_acquire);
      state = slot->state.load(std::memory_order_acquire);
    }
    std::unique_ptr<T> value(slot->value.exchange(nullptr, std::memory_order_relaxed));
    slot->state.store((generation(state) + 1) << 32, std::memory_order_release);
    const MutexLock lock(mutex_);
    free_.push_back(static_cast<std::uint32_t>(handle) - 1);
    return value;
  }

  // Returns the number of the first live object behind this one, and 0 if there is none: next(0) is the first of all.
  // Allocates nothing, so that a destructor may ask.
  std::uint64_t next(std::uint64_t handle) {
    const MutexLock lock(mutex_);
    for (auto index = static_cast<std::uint32_t>(handle); index < used_; ++index) {
      const std::uint64_t state = entry(index).state.load(std::memory_order_acquire);
      if ((state & kLive) != 0) return number(index, state);
    }
    return 0;
  }

 private:
  static constexpr std::uint32_t kBlock = 1024;
  static constexpr std::uint64_t kLive = 1u << 31;
  static constexpr std::uint64_t kHeld = 1u << 30;
  static constexpr std::uint64_t kPins = kHeld - 1;

  struct Entry {
    std::atomic<std::uint64_t> state{0};  // Generation (32 bits), live (1), held (1), pins (30).
    std::atomic<T*> value{nullptr};
  };

  static std::uint64_t generation(std::uint64_t state) { return state >> 32; }
  // The index counts from one, so that no handle is zero.
  static std::uint64_t number(std::uint32_t index, std::uint64_t state) {
    return generation(state) << 32 | (index + 1);
  }
  // Reserves room in the free list for every number of the block, since freeing must not allocate.
  void add_block(std::uint32_t block) REQUIRES(mutex_) {
    free_.reserve((block + 1) * kBlock);
    blocks_[block].store(new Entry[kBlock], std::memory_order_release);
  }
  Entry& entry(std::uint32_t index) { return blocks_[index / kBlock].load(std::memory_order_acquire)[index % kBlock]; }
  Entry* find(std::uint64_t handle) {
    const std::uint32_t index = static_cast<std::uint32_t>(handle) - 1;
    if (index >= kCountMax) return nullptr;
    Entry* block = blocks_[index / kBlock].load(std::memory_order_acquire);
    return block == nullptr ? nullptr : &block[index % kBlock];
  }

  std::array<std::atomic<Entry*>, kCountMax / kBlock> blocks_{};
  Mutex mutex_;  // Held for registration only.
  std::vector<std::uint32_t> free_ GUARDED_BY(mutex_);
  std::uint32_t used_ GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock::core
