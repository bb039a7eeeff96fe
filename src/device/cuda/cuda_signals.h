// SPDX-License-Identifier: Apache-2.0

// How a kernel of ours tells that it is over without a call to the driver: by a word in page-locked memory, which its
// last block writes. Asking takes the driver's lock, which eight threads that wait keep from those that launch.
//
// One signal belongs to one copy queue at a time. There are a few dozen to a context; a queue that gets none goes by
// events.
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
    // True if the launch that was given this number is over, and with it all that its stream had before it.
    bool has_come(std::uint32_t number) const {
      const std::uint32_t there = std::atomic_ref(*word_).load(std::memory_order_acquire);
      return static_cast<std::int32_t>(there - number) >= 0;
    }
    // The two addresses that the kernel gets.
    cuda::CUdeviceptr word() const { return reinterpret_cast<std::uintptr_t>(word_); }
    cuda::CUdeviceptr counter() const { return counter_; }

   private:
    friend class CudaSignals;
    std::uint32_t* word_ = nullptr;
    cuda::CUdeviceptr counter_ = 0;  // Counts blocks that have ended; zero between two launches.
    std::atomic<bool> taken_{false};
  };

  explicit CudaSignals(const cuda::CudaApi& api) : api_(api) {}
  // Its memory stays with the driver, as the kernel does: giving it back would wait for streams.
  ~CudaSignals() = default;

  // Opens them once, in the context that is current then, by way of a stream of it.
  bool open(cuda::CUstream stream);
  // For launches with numbers from 1 on. Null where there is none.
  Signal* take();
  // Nothing that was told of it is under way.
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
