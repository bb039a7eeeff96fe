// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/cuda_api.h"

#include <dlfcn.h>

namespace penstock::core::cuda {
namespace {

class Loader {
 public:
  explicit Loader(void* library) : library_(library) {}

  template <typename Call>
  void optional(Call*& call, const char* symbol) {
    call = reinterpret_cast<Call*>(::dlsym(library_, symbol));
  }
  template <typename Call>
  void required(Call*& call, const char* symbol) {
    optional(call, symbol);
    if (call == nullptr && missing_ == nullptr) missing_ = symbol;
  }
  // The first required symbol that was not found; null where there is none.
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

}  // namespace

bool CudaApi::load(const char* library, std::string* why_not) {
  void* handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* cause = ::dlerror();
    *why_not = "the CUDA driver could not be loaded (" + std::string(cause != nullptr ? cause : library) +
               "); install NVIDIA's driver, or let the container see it";
    return false;
  }
  Loader loader(handle);
  loader.required(cuInit, "cuInit");
  loader.required(cuGetErrorName, "cuGetErrorName");
  loader.required(cuGetErrorString, "cuGetErrorString");
  loader.required(cuDeviceGetCount, "cuDeviceGetCount");
  loader.required(cuDeviceGet, "cuDeviceGet");
  loader.required(cuDeviceGetName, "cuDeviceGetName");
  // The second version names a MIG instance by its own UUID; the first by that of the whole GPU.
  loader.optional(cuDeviceGetUuid, "cuDeviceGetUuid_v2");
  if (cuDeviceGetUuid == nullptr) loader.required(cuDeviceGetUuid, "cuDeviceGetUuid");
  loader.required(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId");
  loader.required(cuDeviceTotalMem, "cuDeviceTotalMem_v2");
  loader.required(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  loader.required(cuCtxGetCurrent, "cuCtxGetCurrent");
  loader.required(cuCtxPushCurrent, "cuCtxPushCurrent_v2");
  loader.required(cuCtxPopCurrent, "cuCtxPopCurrent_v2");
  loader.required(cuCtxGetApiVersion, "cuCtxGetApiVersion");
  loader.optional(cuCtxGetId, "cuCtxGetId");
  loader.optional(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode");
  loader.optional(cuPointerSetAttribute, "cuPointerSetAttribute");
  loader.required(cuPointerGetAttributes, "cuPointerGetAttributes");
  loader.required(cuMemAlloc, "cuMemAlloc_v2");
  loader.required(cuMemFree, "cuMemFree_v2");
  loader.required(cuMemHostRegister, "cuMemHostRegister_v2");
  loader.required(cuMemHostUnregister, "cuMemHostUnregister");
  loader.required(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
  loader.required(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
  loader.required(cuStreamCreate, "cuStreamCreate");
  loader.optional(cuStreamCreateWithPriority, "cuStreamCreateWithPriority");
  loader.optional(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange");
  loader.required(cuStreamQuery, "cuStreamQuery");
  loader.required(cuStreamSynchronize, "cuStreamSynchronize");
  loader.required(cuStreamDestroy, "cuStreamDestroy_v2");
  loader.optional(cuCtxGetDevice, "cuCtxGetDevice");
  loader.optional(cuStreamGetCtx, "cuStreamGetCtx");
  loader.optional(cuStreamIsCapturing, "cuStreamIsCapturing");
  loader.optional(cuLaunchHostFunc, "cuLaunchHostFunc");
  // The first versions, of drivers before CUDA 11.7, work where an administrator allowed them only.
  loader.optional(cuStreamWaitValue32, "cuStreamWaitValue32_v2");
  if (cuStreamWaitValue32 == nullptr) loader.optional(cuStreamWaitValue32, "cuStreamWaitValue32");
  loader.optional(cuStreamWriteValue32, "cuStreamWriteValue32_v2");
  if (cuStreamWriteValue32 == nullptr) loader.optional(cuStreamWriteValue32, "cuStreamWriteValue32");
  loader.optional(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2");
  loader.optional(cuModuleLoadData, "cuModuleLoadData");
  loader.optional(cuModuleGetFunction, "cuModuleGetFunction");
  loader.optional(cuLaunchKernel, "cuLaunchKernel");
  loader.optional(cuDeviceGetAttribute, "cuDeviceGetAttribute");
  loader.optional(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity");
  loader.optional(cuMemCreate, "cuMemCreate");
  loader.optional(cuMemRelease, "cuMemRelease");
  loader.optional(cuMemAddressReserve, "cuMemAddressReserve");
  loader.optional(cuMemAddressFree, "cuMemAddressFree");
  loader.optional(cuMemMap, "cuMemMap");
  loader.optional(cuMemUnmap, "cuMemUnmap");
  loader.optional(cuMemSetAccess, "cuMemSetAccess");
  loader.optional(cuMemExportToShareableHandle, "cuMemExportToShareableHandle");
  loader.optional(cuDriverGetVersion, "cuDriverGetVersion");
  loader.optional(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
  loader.optional(cuCtxSetCurrent, "cuCtxSetCurrent");
  loader.optional(cuMemHostAlloc, "cuMemHostAlloc");
  loader.optional(cuMemFreeHost, "cuMemFreeHost");
  loader.optional(cuMemcpyHtoD, "cuMemcpyHtoD_v2");
  loader.optional(cuMemcpyDtoH, "cuMemcpyDtoH_v2");
  loader.required(cuEventCreate, "cuEventCreate");
  loader.required(cuEventRecord, "cuEventRecord");
  loader.required(cuEventQuery, "cuEventQuery");
  loader.required(cuEventSynchronize, "cuEventSynchronize");
  loader.required(cuEventDestroy, "cuEventDestroy_v2");
  if (loader.missing() == nullptr) return true;
  *why_not = std::string(library) + " has no " + loader.missing() + "; install the driver of CUDA 11.4 or later";
  return false;
}

std::string CudaApi::describe(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) return "CUDA error " + std::to_string(result);
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) return name;
  return std::string(name) + " (" + text + ")";
}

bool CudaApi::identify(CUcontext context, unsigned long long* id) const {
  *id = 0;
  if (cuCtxGetId != nullptr) return cuCtxGetId(context, id) == CUDA_SUCCESS;
  unsigned version = 0;
  return cuCtxGetApiVersion(context, &version) == CUDA_SUCCESS;
}

}  // namespace penstock::core::cuda
