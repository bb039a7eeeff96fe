// SPDX-License-Identifier: Apache-2.0

// CRC32C of memory wherever it is: host memory's by the CPU, on the caller's thread; a device's by the device, where it
// can, many pieces at once, else the bytes are copied to the host by and by. Nothing is kept of the bytes, and nothing
// is moved.
//
// A caller has a stream and a little page-locked memory for itself, which the next one gets. Thread-safe. To be
// destroyed before the devices.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "device/device.h"
#include "device/placement.h"

namespace penstock::core {

class Checksums {
 public:
  explicit Checksums(DeviceSet& devices, const Placement& placement = {});
  ~Checksums();

  // Makes the checksum of each `piece_bytes` of memory, the last perhaps of fewer. `sums` has room for exactly as many
  // as `size` has. Work on the program's own streams is not waited for.
  Status make(const void* memory, std::uint64_t size, std::uint64_t piece_bytes, std::span<std::uint32_t> sums);
  // Makes the checksum of each piece, wherever it is; `sums` has room for all.
  Status make(std::span<const iovec> pieces, std::span<std::uint32_t> sums);

 private:
  static constexpr std::size_t kIdleMax = 16;
  struct Desk;
  class Work;

  Result<std::unique_ptr<Desk>> take(Device& device);
  void give_back(std::unique_ptr<Desk> desk);

  DeviceSet& devices_;
  const Placement placement_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Desk>> idle_ GUARDED_BY(mutex_);
};

}  // namespace penstock::core
