// SPDX-License-Identifier: Apache-2.0

// Makes many small copies by one launch of a kernel (scatter_kernel.h), for the copy queues of one context. If the
// kernel cannot be had, or should not be used now, launch() returns false and the caller copies one by one.
// Thread-safe; the only lock is for loading the kernel once, and no other thread waits for it.
#pragma once

#include <span>

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/cuda_signals.h"
#include "device/device.h"

namespace penstock::core {

class CudaScatter {
 public:
  // For larger pieces a copy engine is as fast, and leaves the GPU's cores alone.
  static constexpr std::size_t kPieceBytesMax = 64u << 10;
  // Fewer copies can be queued one by one in the time that a launch takes.
  static constexpr std::size_t kPiecesMin = 4;

  CudaScatter(const cuda::CudaApi& api, int ordinal);

  // False if nothing was queued. The context must be current; at most ScatterList::kPiecesMax copies may be given.
  // `signal` is the stream's signal; if it has none it gets one, if one is free. The signal has `number` when the
  // copies are done.
  bool launch(cuda::CUstream stream, std::span<const Copy> copies, Direction direction, CudaSignals::Signal*& signal,
              std::uint32_t number);
  CudaSignals& signals() { return signals_; }

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool holds(const void* memory, std::size_t size) const;
  };

  Range find(const void* memory, bool on_device) const;

  const cuda::CudaApi& api_;
  const int ordinal_;
  CudaKernel kernel_;
  CudaSignals signals_;
};

}  // namespace penstock::core
