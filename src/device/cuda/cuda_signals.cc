// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/cuda_signals.h"

#include "device/cuda/cuda_scope.h"
#include "device/new_memory.h"

namespace penstock::core {

using namespace cuda;

bool CudaSignals::open(CUstream stream) {
  constexpr const char* kStep = "page-lock host memory for signals";
  const Result<void*> mapped = map_registered(kBytes, kStep, [&](void* memory) {
    return register_status(api_.cuMemHostRegister(memory, kBytes, CU_MEMHOSTREGISTER_PORTABLE), kStep);
  });
  if (!mapped.ok()) return false;
  void* const memory = *mapped;
  // The memory stays registered in any case, and so stays mapped: see above. It still holds zeros only.
  CUdeviceptr counters = 0;
  if (api_.cuMemAlloc(&counters, kBytes) != CUDA_SUCCESS) return false;
  if (api_.cuMemcpyHtoDAsync(counters, memory, kBytes, stream) != CUDA_SUCCESS) return false;
  if (api_.cuStreamSynchronize(stream) != CUDA_SUCCESS) return false;
  auto* const words = static_cast<std::byte*>(memory);
  for (std::size_t i = 0; i < kCount; ++i) {
    signals_[i].word_ = reinterpret_cast<std::uint32_t*>(words + i * kLine);
    signals_[i].counter_ = counters + i * kLine;
  }
  open_.store(true, std::memory_order_release);
  return true;
}

// The counter is zero: every launch leaves it so, and a signal is returned only after all its launches.
CudaSignals::Signal* CudaSignals::take() {
  if (!open_.load(std::memory_order_acquire)) return nullptr;
  for (Signal& signal : signals_) {
    if (signal.taken_.load(std::memory_order_relaxed)) continue;
    if (signal.taken_.exchange(true, std::memory_order_acquire)) continue;
    std::atomic_ref(*signal.word_).store(0, std::memory_order_relaxed);
    return &signal;
  }
  return nullptr;
}

}  // namespace penstock::core
