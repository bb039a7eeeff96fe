// SPDX-License-Identifier: Apache-2.0

// A block of host memory, page-locked for one device, from which bounce buffers are made. The library maps it and
// registers it with the driver, instead of letting the driver allocate it, so that it stays mapped if a CUDA context
// goes away during a storage transfer.
#pragma once

#include <cstddef>
#include <utility>

#include "device/device.h"
#include "device/placement.h"

namespace penstock::core {

class PinnedBlock {
 public:
  // If `device` is null, the memory is only mapped. Whole pages are mapped.
  static Result<PinnedBlock> open(Device* device, std::size_t size, const Placement& placement = {});
  PinnedBlock() = default;
  PinnedBlock(PinnedBlock&& other) noexcept { swap(other); }
  PinnedBlock& operator=(PinnedBlock&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedBlock();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void swap(PinnedBlock& other) {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace penstock::core
