// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/dmabuf_buffers.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/align.h"
#include "base/log.h"

namespace penstock::core {
namespace {

constexpr std::chrono::microseconds kPollInterval{50};

}  // namespace

// ---- One buffer ----------------------------------------------------------------------------------------------------

// Either this sees that the life has ended, or who ends it sees the holder.
bool DmabufBuffer::hold(std::uint64_t address, std::uint64_t bytes) {
  holders_.fetch_add(1);
  if (is_registered() && has(address, bytes)) {
    const Slab slab = slab_of(address);
    if (bytes <= slab.bytes - (address - slab.address)) return true;
  }
  let_go();
  return false;
}

DmabufBuffer::Slab DmabufBuffer::slab_of(std::uint64_t address) const {
  const std::uint64_t begin = begin_.load(std::memory_order_relaxed), end = end_.load(std::memory_order_relaxed);
  const std::uint64_t at = begin + align_down(address - begin, kSlabBytesMax);
  return {at, std::min(kSlabBytesMax, end - at)};
}

// ---- All -----------------------------------------------------------------------------------------------------------

void DmabufBuffers::add_user(User& user) {
  const MutexLock lock(mutex_);
  users_.push_back(&user);
}

void DmabufBuffers::remove_user(User& user) {
  const MutexLock lock(mutex_);
  std::erase(users_, &user);
}

void DmabufBuffers::add(Device& device, std::uint64_t base, std::uint64_t size) {
  const std::uint64_t begin = align_up(base, DmabufBuffer::kPage), end = align_down(base + size, DmabufBuffer::kPage);
  const std::uint64_t allocation = device.memory().allocation_number(reinterpret_cast<const void*>(base));
  if (begin >= end || allocation == 0) return;
  const MutexLock lock(mutex_);
  const auto last = buffers_.begin() + count_.load(std::memory_order_relaxed);
  const auto place = std::find_if(buffers_.begin(), last, [](const DmabufBuffer& one) { return one.base() == 0; });
  if (place == buffers_.end()) return;
  place->base_.store(base, std::memory_order_relaxed);
  place->device_.store(&device, std::memory_order_relaxed);
  place->begin_.store(begin, std::memory_order_relaxed);
  place->end_.store(end, std::memory_order_relaxed);
  place->allocation_.store(allocation, std::memory_order_relaxed);
  place->is_refused_.store(false, std::memory_order_relaxed);
  place->life_.fetch_add(1);
  if (place == last) count_.fetch_add(1, std::memory_order_release);
}

// Slots keep the memory alive where a chunk never ends.
void DmabufBuffers::remove(std::uint64_t base) {
  DmabufBuffer* const buffer = end_of_life(base);
  if (buffer == nullptr) return;
  const auto give_up = std::chrono::steady_clock::now() + patience_;
  while (buffer->holders_.load() != 0) {
    if (std::chrono::steady_clock::now() >= give_up) {
      buffer->base_.store(0, std::memory_order_relaxed);  // The next buffer in this place releases the slots.
      return log(LogLevel::error, "path dmabuf: a buffer was deregistered while a read into it did not end");
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  const MutexLock lock(mutex_);
  for (User* const user : users_) user->release_slots(*buffer);
  buffer->base_.store(0, std::memory_order_relaxed);
}

DmabufBuffer* DmabufBuffers::end_of_life(std::uint64_t base) {
  const MutexLock lock(mutex_);
  const auto last = buffers_.begin() + count_.load(std::memory_order_relaxed);
  const auto place = std::find_if(buffers_.begin(), last, [&](const DmabufBuffer& one) { return one.base() == base; });
  if (place == last) return nullptr;
  end(*place);
  return &*place;
}

void DmabufBuffers::end(DmabufBuffer& buffer) {
  if (buffer.is_registered()) buffer.life_.fetch_add(1);
}

// If a chunk holds the old memory, remove() releases the slots later.
void DmabufBuffers::end_freed(DmabufBuffer& buffer) {
  const MutexLock lock(mutex_);
  if (!buffer.is_registered()) return;
  log(LogLevel::warn,
      "path dmabuf: memory was freed while it was registered, and another allocation has its address: reads into it go "
      "by memory of the library's own until it is deregistered and registered anew");
  end(buffer);
  if (buffer.holders_.load() != 0) return;
  for (User* const user : users_) user->release_slots(buffer);
}

DmabufBuffer* DmabufBuffers::find(const Device& device, std::uint64_t address, std::uint64_t bytes) {
  const unsigned count = count_.load(std::memory_order_acquire);
  for (unsigned i = 0; i < count; ++i) {
    DmabufBuffer& buffer = buffers_[i];
    if (!buffer.has(address, bytes) || !buffer.is_registered()) continue;
    if (buffer.device_.load(std::memory_order_relaxed) != &device) continue;
    const std::uint64_t allocation = device.memory().allocation_number(reinterpret_cast<const void*>(address));
    if (allocation == buffer.allocation_.load(std::memory_order_relaxed)) return &buffer;
    end_freed(buffer);
    return nullptr;
  }
  return nullptr;
}

}  // namespace penstock::core
