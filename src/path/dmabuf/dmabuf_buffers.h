// SPDX-License-Identifier: Apache-2.0

// The device memory that programs have registered, which drives then reach where it is. An export holds memory, not an
// address: it keeps what is freed, and the driver hands out the same address over other memory at once. Registered
// memory has an end that the library hears of, and each request compares the driver's number of the allocation.
//
// A channel holds a buffer for each of its chunks, and makes a slot of a ring for each slab when it first needs it.
// Slots are the only exports that stay: remove() waits for the chunks, and has each channel release its slots, on
// whichever thread. Thread-safe; finding and holding take no lock.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "device/device.h"

namespace penstock::core {

class DmabufBuffers;

class DmabufBuffer {
 public:
  static constexpr std::uint64_t kPage = 4096;              // Exports begin and end at multiples of it.
  static constexpr std::uint64_t kPartBytes = 2u << 20;     // A GPU's largest page.
  static constexpr std::uint64_t kSlabBytesMax = 1u << 30;  // Kernels take no larger dma-buf.
  static constexpr unsigned kPartsMax = kSlabBytesMax / kPartBytes;

  // A part of the buffer that is exported as one.
  struct Slab {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    bool operator==(const Slab&) const = default;
  };

  // True if the device's memory lies in the buffer, and in one slab: then let_go() must follow. The buffer stays
  // registered as far as slots are concerned.
  bool hold(std::uint64_t address, std::uint64_t bytes);
  void let_go() { holders_.fetch_sub(1, std::memory_order_release); }

  // While it is held:
  Slab slab_of(std::uint64_t address) const;
  std::uint64_t base() const { return base_.load(std::memory_order_relaxed); }
  // Another number each time that the buffer is registered.
  std::uint32_t life() const { return life_.load(std::memory_order_relaxed); }
  // Its memory cannot be exported, so that nobody holds it from now on.
  void refuse() { is_refused_.store(true, std::memory_order_relaxed); }

 private:
  friend class DmabufBuffers;
  bool is_registered() const { return life_.load() % 2 != 0; }
  bool has(std::uint64_t address, std::uint64_t bytes) const {
    const std::uint64_t begin = begin_.load(std::memory_order_relaxed), end = end_.load(std::memory_order_relaxed);
    return address >= begin && address < end && bytes <= end - address && !is_refused_.load(std::memory_order_relaxed);
  }

  std::atomic<std::uint32_t> life_{0};  // Odd while it is registered, and its memory was not freed since.
  std::atomic<std::uint32_t> holders_{0};
  std::atomic<const Device*> device_{nullptr};
  std::atomic<std::uint64_t> begin_{0}, end_{0};  // Its whole pages.
  std::atomic<std::uint64_t> allocation_{0};      // The driver's number of its memory.
  std::atomic<bool> is_refused_{false};
  std::atomic<std::uint64_t> base_{0};  // The address that it was registered by; 0: free.
};

class DmabufBuffers {
 public:
  static constexpr unsigned kBuffersMax = 256;          // Further ones go by a channel's own memory.
  static constexpr std::chrono::seconds kPatience{10};  // A program deregisters no buffer that it still reads into.

  // A channel, which has slots of buffers.
  class User {
   public:
    // Releases the buffer's slots. None of its chunks is under way, and none will be.
    virtual void release_slots(const DmabufBuffer& buffer) = 0;

   protected:
    ~User() = default;
  };
  explicit DmabufBuffers(std::chrono::nanoseconds patience = kPatience) : patience_(patience) {}
  void add_user(User& user);
  // No buffer's slots may be released after this.
  void remove_user(User& user);

  // Nothing is exported yet. Memory of which the driver does not tell a number is left out.
  void add(Device& device, std::uint64_t base, std::uint64_t size);
  // After this the program may free the memory, and gets it back: no drive reaches it.
  void remove(std::uint64_t base);
  // The buffer that has the memory; null if there is none, or it is another allocation than the one that was
  // registered.
  DmabufBuffer* find(const Device& device, std::uint64_t address, std::uint64_t bytes);

 private:
  // The buffer that was registered so, which nobody holds from now on; null if there is none.
  DmabufBuffer* end_of_life(std::uint64_t base) EXCLUDES(mutex_);
  static void end(DmabufBuffer& buffer);
  void end_freed(DmabufBuffer& buffer) EXCLUDES(mutex_);

  const std::chrono::nanoseconds patience_;  // How long remove() waits for reads under way.
  std::array<DmabufBuffer, kBuffersMax> buffers_;
  std::atomic<unsigned> count_{0};  // The most that were in use at one time.
  Mutex mutex_;
  std::vector<User*> users_ GUARDED_BY(mutex_);
};

}  // namespace penstock::core
