// SPDX-License-Identifier: Apache-2.0

// CRC32C of memory, wherever it is, and Hash64 if it is asked for. The CPU makes that of host memory, on the caller's
// thread; a device makes that of its memory if it can, many pieces at once, else the bytes are copied to the host a
// little at a time. No bytes are kept, and none are moved.
//
// Each caller has a stream and a little page-locked memory for itself, which later callers reuse. Thread-safe. Destroy
// it before the devices.
#pragma once

#include <sys/uio.h>

#include <map>
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

  // Makes the checksum of each `piece_bytes` of memory; the last piece may be shorter. `sums` has exactly one element
  // for each piece. Does not wait for work on the program's own streams.
  Status make(const void* memory, std::uint64_t size, std::uint64_t piece_bytes, std::span<std::uint32_t> sums);
  // Makes the checksum of each piece, wherever it is; `sums` has room for all.
  Status make(std::span<const iovec> pieces, std::span<std::uint32_t> sums);
  // Makes them, `hashed` also their hashes, in the order of a stream of the program's, without waiting for it: the
  // memory may change by later work of the stream. The CPU makes those of host memory at once. Where a device cannot
  // follow the stream, this waits for it. Returns a number for end().
  Result<std::uint64_t> begin(std::span<const iovec> pieces, void* stream, bool hashed = false);
  // Waits until the stream has passed, and tells the sums and hashes, or as many as there are and have room.
  Status end(std::uint64_t number, std::span<std::uint32_t> sums, std::span<std::uint64_t> hashes = {});

 private:
  static constexpr std::size_t kIdleMax = 16;
  struct Sums;
  struct Desk;
  class Work;
  struct Begun;

  std::unique_ptr<Begun> take(std::uint64_t number);
  Result<std::unique_ptr<Desk>> take(Device& device);
  void give_back(std::unique_ptr<Desk> desk);

  DeviceSet& devices_;
  const Placement placement_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Desk>> idle_ GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::unique_ptr<Begun>> begun_ GUARDED_BY(mutex_);
  std::uint64_t last_ GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock::core
