// SPDX-License-Identifier: Apache-2.0

// Many small copies by one launch of a kernel (scatter_kernel.h), for the copy queues of one context. Where it cannot
// be had, or had better not be used, launch() says so and the caller copies one by one. Thread-safe; takes no lock but
// to load the kernel, once, and no other thread waits for that.
#pragma once

#include <span>

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/cuda_signals.h"
#include "device/device.h"

namespace penstock::core {

class CudaScatter {
 public:
  // Above this a copy engine is as fast, and leaves the GPU's cores alone.
  static constexpr std::size_t kPieceBytesMax = 64u << 10;
  // Fewer than this are queued one by one in the time that a launch takes.
  static constexpr std::size_t kPiecesMin = 4;

  CudaScatter(const cuda::CudaApi& api, int ordinal);

  // False: nothing was queued. The context is the current one, and at most ScatterList::kPiecesMax copies are given.
  // `signal` is one that the stream has, or is given one, where there is one; it has the number when they are over.
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
