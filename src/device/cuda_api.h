// The part of the CUDA driver API that Penstock calls, reached through dlopen, so that it builds without CUDA and runs
// where there is no GPU. CudaDevice is its only caller; nothing else in the library speaks to the driver.
//
// Names and numbers are the driver's own, with the version that the ABI of CUDA 11.4 to 13 shares. A call that may be
// missing there is null; where one of these is used, there is a way to do without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace penstock::core::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;

inline constexpr CUresult CUDA_SUCCESS = 0;
inline constexpr CUresult CUDA_ERROR_INVALID_VALUE = 1;
inline constexpr CUresult CUDA_ERROR_DEINITIALIZED = 4;
inline constexpr CUresult CUDA_ERROR_NO_DEVICE = 100;
inline constexpr CUresult CUDA_ERROR_INVALID_CONTEXT = 201;
inline constexpr CUresult CUDA_ERROR_NOT_READY = 600;
inline constexpr CUresult CUDA_ERROR_CONTEXT_IS_DESTROYED = 709;

inline constexpr int CU_POINTER_ATTRIBUTE_CONTEXT = 1;            // CUcontext; null for memory of no context.
inline constexpr int CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2;        // unsigned; 0 where the driver knows nothing.
inline constexpr int CU_POINTER_ATTRIBUTE_IS_MANAGED = 8;         // unsigned, of which one byte may be written.
inline constexpr int CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9;     // int; negative where there is none.
inline constexpr int CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11;  // CUdeviceptr
inline constexpr int CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12;        // size_t

inline constexpr unsigned CU_MEMORYTYPE_HOST = 1;
inline constexpr unsigned CU_MEMORYTYPE_DEVICE = 2;
inline constexpr unsigned CU_STREAM_NON_BLOCKING = 1;
inline constexpr unsigned CU_EVENT_BLOCKING_SYNC = 1;
inline constexpr unsigned CU_EVENT_DISABLE_TIMING = 2;
inline constexpr unsigned CU_MEMHOSTREGISTER_PORTABLE = 1;
inline constexpr int CU_STREAM_CAPTURE_MODE_RELAXED = 2;

struct CudaApi {
  CUresult (*cuInit)(unsigned flags);
  CUresult (*cuGetErrorName)(CUresult, const char** name);
  CUresult (*cuGetErrorString)(CUresult, const char** text);
  CUresult (*cuDeviceGetCount)(int* count);
  CUresult (*cuDeviceGet)(CUdevice*, int ordinal);
  CUresult (*cuDeviceGetName)(char* name, int capacity, CUdevice);
  CUresult (*cuDeviceGetUuid)(void* sixteen_bytes, CUdevice);
  CUresult (*cuDeviceGetPCIBusId)(char* address, int capacity, CUdevice);
  CUresult (*cuDeviceTotalMem)(std::size_t* bytes, CUdevice);
  CUresult (*cuDevicePrimaryCtxRetain)(CUcontext*, CUdevice);
  CUresult (*cuCtxGetCurrent)(CUcontext*);
  CUresult (*cuCtxPushCurrent)(CUcontext);
  CUresult (*cuCtxPopCurrent)(CUcontext*);
  CUresult (*cuCtxGetApiVersion)(CUcontext, unsigned* version);
  CUresult (*cuCtxGetId)(CUcontext, unsigned long long* id);  // From CUDA 12.0; null before.
  CUresult (*cuThreadExchangeStreamCaptureMode)(int* mode);   // May be null.
  CUresult (*cuPointerGetAttributes)(unsigned count, int* attributes, void** values, CUdeviceptr);
  CUresult (*cuMemAlloc)(CUdeviceptr*, std::size_t bytes);
  CUresult (*cuMemFree)(CUdeviceptr);
  CUresult (*cuMemHostRegister)(void* memory, std::size_t bytes, unsigned flags);
  CUresult (*cuMemHostUnregister)(void* memory);
  CUresult (*cuMemcpyHtoDAsync)(CUdeviceptr, const void* host, std::size_t bytes, CUstream);
  CUresult (*cuMemcpyDtoHAsync)(void* host, CUdeviceptr, std::size_t bytes, CUstream);
  CUresult (*cuStreamCreate)(CUstream*, unsigned flags);
  CUresult (*cuStreamSynchronize)(CUstream);
  CUresult (*cuStreamDestroy)(CUstream);
  CUresult (*cuEventCreate)(CUevent*, unsigned flags);
  CUresult (*cuEventRecord)(CUevent, CUstream);
  CUresult (*cuEventQuery)(CUevent);
  CUresult (*cuEventSynchronize)(CUevent);
  CUresult (*cuEventDestroy)(CUevent);

  // Binds every call above; the library stays loaded for good. On failure, false and a sentence why.
  bool load(const char* library, std::string* why_not);
  // "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"
  std::string describe(CUresult result) const;
  // True while the context lives. `id` tells it from an earlier one at the same address; 0 before CUDA 12.0, where a
  // context made at the address of a destroyed one cannot be told from it.
  bool identify(CUcontext context, unsigned long long* id) const;
};

}  // namespace penstock::core::cuda
