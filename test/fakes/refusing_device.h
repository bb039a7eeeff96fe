// SPDX-License-Identifier: Apache-2.0

// A device over host memory of which a test has one call refused, the nth: so that a test can refuse each one once. It
// tells what of it is still held.
#pragma once

#include <atomic>
#include <climits>
#include <memory>
#include <optional>
#include <span>

#include "checksum/crc32c.h"
#include "checksum/hash64.h"
#include "device/host/host_device.h"

namespace penstock::core {

// A test says which call is refused; the device asks at each, on any thread.
class Refusals {
 public:
  // The nth call from now on is refused; 0: none is.
  void refuse(unsigned nth) { left_ = nth; }
  bool was_refused() const { return left_ == 0; }
  bool refuses() {
    unsigned left = left_;
    while (left > 0 && !left_.compare_exchange_weak(left, left - 1)) {
    }
    return left == 1;
  }
  Status status() { return refuses() ? failure(Code::device_lost, "do it, as scripted") : success(); }

  // What was made and not undone: copy queues, page-locked memory, and device memory.
  std::atomic<int> queues{0}, locked{0}, allocated{0};
  std::atomic<int> queues_most{INT_MAX};  // No more are opened.
  bool makes_checksums = false;           // The device does.

 private:
  std::atomic<unsigned> left_{0};
};

class RefusingQueue final : public CopyQueue {
 public:
  RefusingQueue(std::unique_ptr<CopyQueue> real, Refusals& refusals) : real_(std::move(real)), refusals_(refusals) {
    ++refusals_.queues;
  }
  ~RefusingQueue() override { --refusals_.queues; }
  Status copy_many(std::span<const Copy> copies, Direction direction) override {
    const Status status = refusals_.status();
    return status.ok() ? real_->copy_many(copies, direction) : status;
  }
  Status follow(void* stream) override {
    const Status status = refusals_.status();
    return status.ok() ? real_->follow(stream) : status;
  }
  Status checksum(std::span<ChecksumBlock> blocks, std::optional<void*> stream, bool hashed) override {
    if (!refusals_.makes_checksums) return CopyQueue::checksum(blocks, stream, hashed);
    if (const Status status = refusals_.status(); !status.ok()) return status;
    for (ChecksumBlock& block : blocks) {
      const std::span bytes(static_cast<const std::byte*>(block.address), block.bytes);
      block.sum = crc32c(bytes);
      if (hashed) block.hash = Hash64::of_block(bytes);
    }
    return success();
  }
  Status record(unsigned marker) override {
    const Status status = refusals_.status();
    return status.ok() ? real_->record(marker) : status;
  }
  Result<bool> reached(unsigned marker) override {
    const Status status = refusals_.status();
    return status.ok() ? real_->reached(marker) : status;
  }
  Status wait(unsigned marker, bool spin) override {
    const Status status = refusals_.status();
    return status.ok() ? real_->wait(marker, spin) : status;
  }

 private:
  const std::unique_ptr<CopyQueue> real_;
  Refusals& refusals_;
};

class RefusingDevice final : public HostDevice {
 public:
  RefusingDevice(int ordinal, Refusals& refusals) : HostDevice(ordinal, "host"), refusals_(refusals) {}
  Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned markers) override {
    if (const Status status = refusals_.status(); !status.ok()) return status;
    if (refusals_.queues >= refusals_.queues_most) return failure(Code::limit, "open one more copy queue");
    return std::unique_ptr<CopyQueue>(
        std::make_unique<RefusingQueue>(std::move(*HostDevice::open_copy_queue(markers)), refusals_));
  }
  Status register_host(void* memory, std::size_t size) override {
    if (const Status status = refusals_.status(); !status.ok()) return status;
    ++refusals_.locked;
    return HostDevice::register_host(memory, size);
  }
  bool unregister_host(void* memory) override {
    --refusals_.locked;
    return HostDevice::unregister_host(memory);
  }
  Status register_pages(const std::byte* memory, std::size_t size, bool writable) override {
    const Status status = refusals_.status();
    return status.ok() ? HostDevice::register_pages(memory, size, writable) : status;
  }
  Result<void*> address_in_kernels(void* memory) override {
    if (const Status status = refusals_.status(); !status.ok()) return status;
    return HostDevice::address_in_kernels(memory);
  }
  Status wait_for_kernels() override {
    const Status status = refusals_.status();
    return status.ok() ? HostDevice::wait_for_kernels() : status;
  }
  Result<void*> allocate(std::size_t size) override {
    if (const Status status = refusals_.status(); !status.ok()) return status;
    ++refusals_.allocated;
    return HostDevice::allocate(size);
  }
  void release(void* memory) override {
    --refusals_.allocated;
    HostDevice::release(memory);
  }

 private:
  Refusals& refusals_;
};

// Two of them.
class RefusingDevices : public DeviceSet {
 public:
  explicit RefusingDevices(Refusals& refusals) : devices_{{0, refusals}, {1, refusals}} {}
  unsigned count() const override { return 2; }
  Result<Device*> device(unsigned place) override { return &devices_[place]; }
  PointerFacts describe(const void* pointer) override { return describe_among(devices_, pointer); }
  Result<StreamHome*> stream_home(void*) override { return static_cast<StreamHome*>(&HostStreamHome::of_process()); }

 private:
  RefusingDevice devices_[2];
};

}  // namespace penstock::core
