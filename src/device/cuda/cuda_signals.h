// SPDX-License-Identifier: Apache-2.0

// Signals by which the library's kernels report their end without a call to the driver: a kernel's last block writes a
// word in page-locked memory. Asking the driver takes its lock, and eight waiting threads would keep it from those that
// launch.
//
// A signal belongs to one copy queue at a time. A context has a few dozen; a queue that gets none uses events.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "device/cuda/cuda_api.h"

namespace penstock::core {

class CudaSignals {
 public:
  class Signal {
   public:
    // True if the launch with this number has ended, and with it everything that its stream had before.
    bool has_come(std::uint32_t number) const {
      const std::uint32_t there = std::atomic_ref(*word_).load(std::memory_order_acquire);
      return static_cast<std::int32_t>(there - number) >= 0;
    }
    // The two addresses that the kernel is given.
    cuda::CUdeviceptr word() const { return reinterpret_cast<std::uintptr_t>(word_); }
    cuda::CUdeviceptr counter() const { return counter_; }

   private:
    friend class CudaSignals;
    std::uint32_t* word_ = nullptr;
    cuda::CUdeviceptr counter_ = 0;  // Counts blocks that have ended; zero between launches.
    std::atomic<bool> taken_{false};
  };

  explicit CudaSignals(const cuda::CudaApi& api) : api_(api) {}
  // Its memory stays with the driver, and so does the kernel: returning it would wait for streams.
  ~CudaSignals() = default;

  // Opens the signals once, in the context that is current then, using a stream of that context.
  bool open(cuda::CUstream stream);
  // Takes a free signal, whose user numbers its launches 1, 2 and so on. Null if none is free.
  Signal* take();
  // Returns a signal. No launch that uses it may be under way.
  void give_back(Signal& signal) { signal.taken_.store(false, std::memory_order_release); }

 private:
  static constexpr std::size_t kLine = 64;  // Bytes; no two signals share a line of the cache.
  static constexpr std::size_t kCount = 64;
  static constexpr std::size_t kBytes = kCount * kLine;

  const cuda::CudaApi& api_;
  std::atomic<bool> open_{false};
  std::array<Signal, kCount> signals_;
};

}  // namespace penstock::core
