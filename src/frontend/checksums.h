// SPDX-License-Identifier: Apache-2.0

// CRC32C of memory wherever it is: host memory's by the CPU, on the caller's thread; a device's by the device, where it
// can, else the bytes are copied to the host by and by. Nothing is kept of the bytes, and nothing is moved.
//
// A caller has a stream and a little page-locked memory for itself, which the next one gets. Thread-safe. To be
// destroyed before the devices.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "device/device.h"
#include "device/pinned_block.h"

namespace penstock::core {

class Checksums {
 public:
  explicit Checksums(DeviceSet& devices) : devices_(devices) {}

  // Of each `piece_bytes` of memory, the last of what is left: as many as `sums` has room for, which is what `size`
  // gives. What the program has on its own streams is not waited for.
  Status make(const void* memory, std::uint64_t size, std::uint64_t piece_bytes, std::span<std::uint32_t> sums);

 private:
  static constexpr std::size_t kIdleMax = 16;
  struct Desk {
    Device* device = nullptr;
    std::unique_ptr<CopyQueue> copies;
    PinnedBlock memory;  // Sums of blocks, and bytes behind them.
  };

  Result<std::unique_ptr<Desk>> take(Device& device);
  void give_back(std::unique_ptr<Desk> desk);
  bool is_all_of(Device& device, const std::byte* memory, std::uint64_t size) const;
  static Status add_by_device(Desk& desk, std::span<const std::byte> piece, std::uint32_t& sum);
  static Status add_copied(Desk& desk, std::span<const std::byte> piece, std::uint32_t& sum);

  DeviceSet& devices_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Desk>> idle_ GUARDED_BY(mutex_);
};

}  // namespace penstock::core
