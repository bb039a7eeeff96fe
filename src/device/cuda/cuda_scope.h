// SPDX-License-Identifier: Apache-2.0

// The scope of every call to the driver: makes the right context current, keeps out of a user's capture, and turns the
// driver's results into a Status.
#pragma once

#include "base/status.h"
#include "device/cuda/cuda_api.h"

namespace penstock::core {

struct CudaContext {
  cuda::CUcontext handle = nullptr;
  unsigned long long id = 0;  // Unique in the process; handles are reused.
  bool operator==(const CudaContext&) const = default;
};

inline bool is_alive(const cuda::CudaApi& api, const CudaContext& context) {
  unsigned long long id = 0;
  return api.identify(context.handle, &id) == cuda::CUDA_SUCCESS && id == context.id;
}

// The CUDA driver's number in a Status, from its row in the table of providers.
inline constexpr std::uint8_t kCudaDriver = 0;

inline Status cuda_failure(cuda::CUresult result, const char* step) {
  return driver_failure(kCudaDriver, result, step);
}

inline Status cuda_status(cuda::CUresult result, const char* step) {
  switch (result) {
    case cuda::CUDA_SUCCESS: return success();
    case cuda::CUDA_ERROR_DEINITIALIZED:
    case cuda::CUDA_ERROR_INVALID_CONTEXT:
    case cuda::CUDA_ERROR_CONTEXT_IS_DESTROYED: return failure(Code::device_lost, step);
    default: return cuda_failure(result, step);
  }
}

// The status of registering memory that the library has mapped.
inline Status register_status(cuda::CUresult result, const char* step) {
  const bool is_registered = result == cuda::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  return is_registered ? failure(Code::already_registered, step) : cuda_status(result, step);
}

// The ordinal of the current context's GPU, in the driver's order. Fails if the driver lacks the call.
inline Result<int> current_ordinal(const cuda::CudaApi& api, const char* step) {
  if (api.cuCtxGetDevice == nullptr) return failure(Code::no_device, step);
  cuda::CUdevice device = 0;
  int count = 0;
  if (const Status status = cuda_status(api.cuCtxGetDevice(&device), step); !status.ok()) return status;
  (void)api.cuDeviceGetCount(&count);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cuda::CUdevice each = 0;
    if (api.cuDeviceGet(&each, ordinal) == cuda::CUDA_SUCCESS && each == device) return ordinal;
  }
  return failure(Code::no_device, step);
}

// While a thread of the user's captures a graph, the driver refuses allocations, queries and waits in the whole
// process, and trying one spoils the capture (seen on CUDA 13.0). This keeps the library's calls out of any capture.
class OutsideCapture {
 public:
  explicit OutsideCapture(const cuda::CudaApi& api) : exchange_(api.cuThreadExchangeStreamCaptureMode) { swap(); }
  ~OutsideCapture() { swap(); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  // An exchange that fails leaves mode_ unchanged, so that the second one changes nothing either.
  void swap() {
    if (exchange_ != nullptr) exchange_(&mode_);
  }
  cuda::CUresult (*exchange_)(int*);
  int mode_ = cuda::CU_STREAM_CAPTURE_MODE_RELAXED;
};

// Makes a context current while this object lives, and the caller's again afterwards. Takes about 70 ns on an H200
// machine.
class ContextScope {
 public:
  ContextScope(const cuda::CudaApi& api, const CudaContext& context) : api_(api), outside_(api_) {
    if (!is_alive(api_, context)) return;
    cuda::CUcontext current = nullptr;
    result_ = api_.cuCtxGetCurrent(&current);
    if (result_ != cuda::CUDA_SUCCESS || current == context.handle) return;
    result_ = api_.cuCtxPushCurrent(context.handle);
    pushed_ = result_ == cuda::CUDA_SUCCESS;
  }
  ~ContextScope() {
    cuda::CUcontext popped = nullptr;
    if (pushed_) api_.cuCtxPopCurrent(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  bool entered() const { return result_ == cuda::CUDA_SUCCESS; }
  cuda::CUresult result() const { return result_; }

 private:
  const cuda::CudaApi& api_;
  OutsideCapture outside_;
  cuda::CUresult result_ = cuda::CUDA_ERROR_CONTEXT_IS_DESTROYED;
  bool pushed_ = false;
};

}  // namespace penstock::core
