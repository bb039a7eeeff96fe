#include "device/cuda_signals.h"

#include <sys/mman.h>

namespace penstock::core {

using namespace cuda;

bool CudaSignals::open() {
  void* const page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  // A forked child must not share what the GPU writes to.
  ::madvise(page, kPage, MADV_DONTFORK);
  CUdeviceptr counters = 0;
  if (api_.cuMemHostRegister(page, kPage, CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS) {
    ::munmap(page, kPage);
    return false;
  }
  // The page stays registered in any case, and so mapped: see above.
  if (api_.cuMemAlloc(&counters, kPage) != CUDA_SUCCESS) return false;
  auto* const words = static_cast<std::byte*>(page);
  for (std::size_t i = 0; i < kCount; ++i) {
    signals_[i].word_ = reinterpret_cast<std::uint32_t*>(words + i * kLine);
    signals_[i].counter_ = counters + i * kLine;
  }
  page_.store(words, std::memory_order_release);
  return true;
}

CudaSignals::Signal* CudaSignals::take(CUstream stream) {
  const std::byte* const page = page_.load(std::memory_order_acquire);
  if (page == nullptr) return nullptr;
  const std::byte* const zero = page + kCount * kLine;
  for (Signal& signal : signals_) {
    if (signal.taken_.load(std::memory_order_relaxed)) continue;
    if (signal.taken_.exchange(true, std::memory_order_acquire)) continue;
    std::atomic_ref(*signal.word_).store(0, std::memory_order_relaxed);
    if (api_.cuMemcpyHtoDAsync(signal.counter_, zero, sizeof(std::uint32_t), stream) == CUDA_SUCCESS) return &signal;
    give_back(signal);
    return nullptr;
  }
  return nullptr;
}

}  // namespace penstock::core
