// SPDX-License-Identifier: Apache-2.0

// Device memory of a channel's own, exported once, through which a drive's bytes pass. The library allocates it, so
// that a canary may overwrite it, and no driver has to tell of a program that frees its memory.
#pragma once

#include <utility>

#include "base/guarded_fd.h"
#include "device/device.h"

namespace penstock::core {

class DmabufMemory {
 public:
  // Fails as Device's allocate() or export_dmabuf() does. At least `size` bytes; whole pages of a GPU.
  static Result<DmabufMemory> open(Device& device, std::uint64_t size);
  DmabufMemory() = default;
  DmabufMemory(DmabufMemory&& other) noexcept { swap(other); }
  DmabufMemory& operator=(DmabufMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DmabufMemory();

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  const GuardedFd& dmabuf() const { return dmabuf_; }
  // Leaves it allocated for ever: a drive may still write to it.
  void abandon() { data_ = nullptr; }

 private:
  void swap(DmabufMemory& other) {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(dmabuf_, other.dmabuf_);
  }

  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  GuardedFd dmabuf_;
};

// Copies between a channel's memory and a request's, both of the device: CopyQueue's "host" memory is the channel's.
class CopiesWithinDevice final : public CopyQueue {
 public:
  explicit CopiesWithinDevice(std::unique_ptr<CopyQueue> queue) : queue_(std::move(queue)) {}

  Status copy_many(std::span<const Copy> copies, Direction direction) override;
  Status record(unsigned marker) override { return queue_->record(marker); }
  Result<bool> reached(unsigned marker) override { return queue_->reached(marker); }
  Status wait(unsigned marker, bool spin) override { return queue_->wait(marker, spin); }

  CopyQueue& queue() { return *queue_; }  // For copies from and to the host.

 private:
  const std::unique_ptr<CopyQueue> queue_;
};

}  // namespace penstock::core
