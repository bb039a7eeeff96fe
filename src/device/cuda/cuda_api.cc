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
  // The first required symbol that was not found; null if all were.
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

void find_required(Loader& loader, CudaApi& api) {
  loader.required(api.cuInit, "cuInit");
  loader.required(api.cuGetErrorName, "cuGetErrorName");
  loader.required(api.cuGetErrorString, "cuGetErrorString");
  loader.required(api.cuDeviceGetCount, "cuDeviceGetCount");
  loader.required(api.cuDeviceGet, "cuDeviceGet");
  loader.required(api.cuDeviceGetName, "cuDeviceGetName");
  // For a MIG instance the second version returns the instance's UUID, the first that of the whole GPU.
  loader.optional(api.cuDeviceGetUuid, "cuDeviceGetUuid_v2");
  if (api.cuDeviceGetUuid == nullptr) loader.required(api.cuDeviceGetUuid, "cuDeviceGetUuid");
  loader.required(api.cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId");
  loader.required(api.cuDeviceTotalMem, "cuDeviceTotalMem_v2");
  loader.required(api.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  loader.required(api.cuCtxGetCurrent, "cuCtxGetCurrent");
  loader.required(api.cuCtxPushCurrent, "cuCtxPushCurrent_v2");
  loader.required(api.cuCtxPopCurrent, "cuCtxPopCurrent_v2");
  loader.required(api.cuCtxGetApiVersion, "cuCtxGetApiVersion");
  loader.required(api.cuPointerGetAttributes, "cuPointerGetAttributes");
  loader.required(api.cuMemAlloc, "cuMemAlloc_v2");
  loader.required(api.cuMemFree, "cuMemFree_v2");
  loader.required(api.cuMemHostRegister, "cuMemHostRegister_v2");
  loader.required(api.cuMemHostUnregister, "cuMemHostUnregister");
  loader.required(api.cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
  loader.required(api.cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
  loader.required(api.cuStreamCreate, "cuStreamCreate");
  loader.required(api.cuStreamQuery, "cuStreamQuery");
  loader.required(api.cuStreamSynchronize, "cuStreamSynchronize");
  loader.required(api.cuStreamDestroy, "cuStreamDestroy_v2");
  loader.required(api.cuEventCreate, "cuEventCreate");
  loader.required(api.cuEventRecord, "cuEventRecord");
  loader.required(api.cuEventQuery, "cuEventQuery");
  loader.required(api.cuEventSynchronize, "cuEventSynchronize");
  loader.required(api.cuEventDestroy, "cuEventDestroy_v2");
}

void find_virtual_memory(Loader& loader, CudaApi& api) {
  loader.optional(api.cuDeviceGetAttribute, "cuDeviceGetAttribute");
  loader.optional(api.cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity");
  loader.optional(api.cuMemCreate, "cuMemCreate");
  loader.optional(api.cuMemRelease, "cuMemRelease");
  loader.optional(api.cuMemAddressReserve, "cuMemAddressReserve");
  loader.optional(api.cuMemAddressFree, "cuMemAddressFree");
  loader.optional(api.cuMemMap, "cuMemMap");
  loader.optional(api.cuMemUnmap, "cuMemUnmap");
  loader.optional(api.cuMemSetAccess, "cuMemSetAccess");
  loader.optional(api.cuMemExportToShareableHandle, "cuMemExportToShareableHandle");
  loader.optional(api.cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle");
  loader.optional(api.cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle");
  loader.optional(api.cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange");
}

void find_optional(Loader& loader, CudaApi& api) {
  loader.optional(api.cuCtxGetId, "cuCtxGetId");
  loader.optional(api.cuCtxSynchronize, "cuCtxSynchronize");
  loader.optional(api.cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode");
  loader.optional(api.cuPointerSetAttribute, "cuPointerSetAttribute");
  loader.optional(api.cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2");
  loader.optional(api.cuFlushGPUDirectRDMAWrites, "cuFlushGPUDirectRDMAWrites");
  loader.optional(api.cuStreamCreateWithPriority, "cuStreamCreateWithPriority");
  loader.optional(api.cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange");
  loader.optional(api.cuStreamWaitEvent, "cuStreamWaitEvent");
  loader.optional(api.cuCtxGetDevice, "cuCtxGetDevice");
  loader.optional(api.cuStreamGetCtx, "cuStreamGetCtx");
  loader.optional(api.cuStreamIsCapturing, "cuStreamIsCapturing");
  loader.optional(api.cuStreamGetFlags, "cuStreamGetFlags");
  loader.optional(api.cuLaunchHostFunc, "cuLaunchHostFunc");
  // The first versions, of drivers before CUDA 11.7, only work if an administrator allowed them.
  loader.optional(api.cuStreamWaitValue32, "cuStreamWaitValue32_v2");
  if (api.cuStreamWaitValue32 == nullptr) loader.optional(api.cuStreamWaitValue32, "cuStreamWaitValue32");
  loader.optional(api.cuStreamWriteValue32, "cuStreamWriteValue32_v2");
  if (api.cuStreamWriteValue32 == nullptr) loader.optional(api.cuStreamWriteValue32, "cuStreamWriteValue32");
  loader.optional(api.cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2");
  loader.optional(api.cuModuleLoadData, "cuModuleLoadData");
  loader.optional(api.cuModuleGetFunction, "cuModuleGetFunction");
  loader.optional(api.cuLaunchKernel, "cuLaunchKernel");
  loader.optional(api.cuDriverGetVersion, "cuDriverGetVersion");
  loader.optional(api.cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
  loader.optional(api.cuCtxSetCurrent, "cuCtxSetCurrent");
  loader.optional(api.cuMemHostAlloc, "cuMemHostAlloc");
  loader.optional(api.cuMemFreeHost, "cuMemFreeHost");
  loader.optional(api.cuMemcpyHtoD, "cuMemcpyHtoD_v2");
  loader.optional(api.cuMemcpyDtoH, "cuMemcpyDtoH_v2");
}

}  // namespace

bool CudaApi::load(const char* library, std::string* why_not) {
  void* handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* cause = ::dlerror();
    *why_not = std::string(kDriverNotLoaded) + " (" + (cause != nullptr ? cause : library) +
               "); install NVIDIA's driver, or let the container see it";
    return false;
  }
  Loader loader(handle);
  find_required(loader, *this);
  find_optional(loader, *this);
  find_virtual_memory(loader, *this);
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

CUresult CudaApi::identify(CUcontext context, unsigned long long* id) const {
  *id = 0;
  if (cuCtxGetId != nullptr) return cuCtxGetId(context, id);
  unsigned version = 0;
  return cuCtxGetApiVersion(context, &version);
}

}  // namespace penstock::core::cuda
