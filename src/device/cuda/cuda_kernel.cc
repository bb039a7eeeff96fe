// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/cuda_kernel.h"

namespace penstock::core {

using namespace cuda;

CUfunction CudaKernel::load() const {
  const bool complete = api_.cuModuleLoadData != nullptr && api_.cuModuleGetFunction != nullptr &&
                        api_.cuLaunchKernel != nullptr && api_.cuDeviceGetAttribute != nullptr;
  CUdevice device = 0;
  if (!complete || api_.cuDeviceGet(&device, ordinal_) != CUDA_SUCCESS) return nullptr;
  int same_address = 0;
  const CUresult asked =
      api_.cuDeviceGetAttribute(&same_address, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, device);
  if (asked != CUDA_SUCCESS || same_address == 0) return nullptr;
  CUmodule module = nullptr;
  CUfunction found = nullptr;
  if (api_.cuModuleLoadData(&module, text_().c_str()) != CUDA_SUCCESS) return nullptr;
  return api_.cuModuleGetFunction(&found, module, name_) == CUDA_SUCCESS ? found : nullptr;
}

// Loads the kernel once. Loading waits for every held stream, so callers ask only while we hold none; two threads never
// load at the same time.
CUfunction CudaKernel::function(const std::function<void()>& on_load) {
  if (tried_.load(std::memory_order_acquire)) return function_.load(std::memory_order_relaxed);
  if (!loading_.try_lock()) return nullptr;
  const MutexLock lock(loading_, std::adopt_lock);
  if (tried_.load(std::memory_order_relaxed)) return nullptr;
  const CUfunction found = load();
  if (found != nullptr && on_load) on_load();
  function_.store(found, std::memory_order_relaxed);
  tried_.store(true, std::memory_order_release);
  return found;
}

}  // namespace penstock::core
