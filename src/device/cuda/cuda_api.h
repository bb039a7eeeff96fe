// SPDX-License-Identifier: Apache-2.0

// The part of the CUDA driver API that Penstock calls, reached through dlopen, so that it builds without CUDA and runs
// without a GPU. In the library only this folder calls the driver; tools and benchmarks, which allocate and copy as a
// user's program would, load it here, too.
//
// Names and numbers are the driver's own, in the versions that the ABI of CUDA 11.4 to 13 shares. Calls that the driver
// lacks are null; code that uses them has a fallback.
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
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;

// The beginning of CudaApi::load()'s answer where there is no driver at all.
inline constexpr const char* kDriverNotLoaded = "the CUDA driver could not be loaded";

inline constexpr CUresult CUDA_SUCCESS = 0;
inline constexpr CUresult CUDA_ERROR_INVALID_VALUE = 1;
inline constexpr CUresult CUDA_ERROR_OUT_OF_MEMORY = 2;
inline constexpr CUresult CUDA_ERROR_DEINITIALIZED = 4;
inline constexpr CUresult CUDA_ERROR_NO_DEVICE = 100;
inline constexpr CUresult CUDA_ERROR_INVALID_CONTEXT = 201;
inline constexpr CUresult CUDA_ERROR_NOT_READY = 600;
inline constexpr CUresult CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712;
inline constexpr CUresult CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906;
inline constexpr CUresult CUDA_ERROR_CONTEXT_IS_DESTROYED = 709;

inline constexpr int CU_POINTER_ATTRIBUTE_CONTEXT = 1;         // CUcontext; null for memory of no context.
inline constexpr int CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2;     // unsigned; 0 if the driver does not know the memory.
inline constexpr int CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6;     // unsigned
inline constexpr int CU_POINTER_ATTRIBUTE_BUFFER_ID = 7;       // unsigned long long
inline constexpr int CU_POINTER_ATTRIBUTE_IS_MANAGED = 8;      // unsigned, of which the driver may write only one byte.
inline constexpr int CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9;  // int; negative if there is none.
inline constexpr int CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11;   // CUdeviceptr
inline constexpr int CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12;         // size_t
inline constexpr int CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17;     // Null for memory of no pool.
inline constexpr int CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18;       // size_t; for memory that cuMemMap mapped.
inline constexpr int CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19;  // CUdeviceptr

inline constexpr unsigned CU_MEMORYTYPE_HOST = 1;
inline constexpr unsigned CU_MEMORYTYPE_DEVICE = 2;
inline constexpr unsigned CU_STREAM_NON_BLOCKING = 1;
inline constexpr unsigned CU_EVENT_BLOCKING_SYNC = 1;
inline constexpr unsigned CU_EVENT_DISABLE_TIMING = 2;
inline constexpr unsigned CU_MEMHOSTALLOC_PORTABLE = 1;
inline constexpr unsigned CU_MEMHOSTREGISTER_PORTABLE = 1;
inline constexpr unsigned CU_MEMHOSTREGISTER_DEVICEMAP = 2;
inline constexpr unsigned CU_MEMHOSTREGISTER_READ_ONLY = 8;
inline constexpr int CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED = 113;
inline constexpr int CU_STREAM_CAPTURE_MODE_RELAXED = 2;
inline constexpr int CU_STREAM_CAPTURE_STATUS_NONE = 0;
inline constexpr unsigned CU_STREAM_WAIT_VALUE_GEQ = 0;       // Compares the difference, as a signed number.
inline constexpr unsigned CU_STREAM_WRITE_VALUE_DEFAULT = 0;  // After everything before it in the stream.

inline constexpr int CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110;
inline constexpr int CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED = 116;
inline constexpr int CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS = 117;
inline constexpr int CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING = 118;
inline constexpr int CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST = 1;  // A bit.
// From this value on, the device itself orders the writes.
inline constexpr int CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER = 100;
inline constexpr int CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX = 0;
inline constexpr int CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER = 100;
inline constexpr int CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91;
inline constexpr int CU_MEM_ALLOCATION_TYPE_PINNED = 1;
inline constexpr int CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1;
inline constexpr int CU_MEM_LOCATION_TYPE_DEVICE = 1;
inline constexpr int CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1;
inline constexpr int CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124;
inline constexpr int CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0;
inline constexpr int CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3;

using CUmemGenericAllocationHandle = unsigned long long;
struct CUmemLocation {
  int type;
  int id;
};
struct CUmemAllocationProp {
  int type;
  int requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType;
    unsigned char gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};
static_assert(sizeof(CUmemAllocationProp) == 32);
struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;
};

// The driver's soname, for dlopen(): Penstock is not linked to it.
inline constexpr const char* kDriverLibrary = "libcuda.so.1";

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
  CUresult (*cuCtxSynchronize)();                             // May be null, as the next two.
  CUresult (*cuThreadExchangeStreamCaptureMode)(int* mode);
  CUresult (*cuPointerSetAttribute)(const void* value, int attribute, CUdeviceptr);
  CUresult (*cuPointerGetAttributes)(unsigned count, int* attributes, void** values, CUdeviceptr);
  CUresult (*cuMemAlloc)(CUdeviceptr*, std::size_t bytes);
  CUresult (*cuMemFree)(CUdeviceptr);
  CUresult (*cuMemHostRegister)(void* memory, std::size_t bytes, unsigned flags);
  CUresult (*cuMemHostUnregister)(void* memory);
  CUresult (*cuMemcpyHtoDAsync)(CUdeviceptr, const void* host, std::size_t bytes, CUstream);
  CUresult (*cuMemcpyDtoHAsync)(void* host, CUdeviceptr, std::size_t bytes, CUstream);
  // Both may be null; the second comes with CUDA 11.3.
  CUresult (*cuMemcpyDtoDAsync)(CUdeviceptr, CUdeviceptr from, std::size_t bytes, CUstream);
  CUresult (*cuFlushGPUDirectRDMAWrites)(int target, int scope);
  CUresult (*cuStreamCreate)(CUstream*, unsigned flags);
  CUresult (*cuStreamCreateWithPriority)(CUstream*, unsigned flags, int priority);  // May be null, as the next.
  CUresult (*cuCtxGetStreamPriorityRange)(int* least, int* greatest);
  CUresult (*cuStreamQuery)(CUstream);
  CUresult (*cuStreamSynchronize)(CUstream);
  CUresult (*cuStreamDestroy)(CUstream);
  // Calls for requests on users' streams. All may be null; see has_streams().
  CUresult (*cuCtxGetDevice)(CUdevice*);
  CUresult (*cuStreamGetCtx)(CUstream, CUcontext*);
  CUresult (*cuStreamIsCapturing)(CUstream, int* status);
  CUresult (*cuStreamGetFlags)(CUstream, unsigned* flags);
  CUresult (*cuLaunchHostFunc)(CUstream, void (*function)(void*), void* argument);
  CUresult (*cuStreamWaitValue32)(CUstream, CUdeviceptr, std::uint32_t value, unsigned flags);
  CUresult (*cuStreamWriteValue32)(CUstream, CUdeviceptr, std::uint32_t value, unsigned flags);
  CUresult (*cuMemHostGetDevicePointer)(CUdeviceptr*, void* host, unsigned flags);
  CUresult (*cuModuleLoadData)(CUmodule*, const void* image);
  CUresult (*cuModuleGetFunction)(CUfunction*, CUmodule, const char* name);
  CUresult (*cuLaunchKernel)(CUfunction, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream, void** parameters,
                             void** extra);
  CUresult (*cuEventCreate)(CUevent*, unsigned flags);
  CUresult (*cuEventRecord)(CUevent, CUstream);
  CUresult (*cuEventQuery)(CUevent);
  CUresult (*cuStreamWaitEvent)(CUstream, CUevent, unsigned flags);  // May be null.
  CUresult (*cuEventSynchronize)(CUevent);
  CUresult (*cuEventDestroy)(CUevent);

  // Calls for memory that can be exported (nvidia_export.h). All may be null; see has_virtual_memory().
  CUresult (*cuDeviceGetAttribute)(int* value, int attribute, CUdevice);
  CUresult (*cuMemGetAllocationGranularity)(std::size_t*, const CUmemAllocationProp*, int option);
  CUresult (*cuMemCreate)(CUmemGenericAllocationHandle*, std::size_t bytes, const CUmemAllocationProp*,
                          unsigned long long flags);
  CUresult (*cuMemRelease)(CUmemGenericAllocationHandle);
  CUresult (*cuMemAddressReserve)(CUdeviceptr*, std::size_t bytes, std::size_t alignment, CUdeviceptr wanted,
                                  unsigned long long flags);
  CUresult (*cuMemAddressFree)(CUdeviceptr, std::size_t bytes);
  CUresult (*cuMemMap)(CUdeviceptr, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle,
                       unsigned long long flags);
  CUresult (*cuMemUnmap)(CUdeviceptr, std::size_t bytes);
  CUresult (*cuMemSetAccess)(CUdeviceptr, std::size_t bytes, const CUmemAccessDesc*, std::size_t count);
  CUresult (*cuMemExportToShareableHandle)(void* shareable, CUmemGenericAllocationHandle, int type,
                                           unsigned long long flags);
  // Calls to examine such memory of others. All may be null; see tells_of_virtual_memory().
  CUresult (*cuMemRetainAllocationHandle)(CUmemGenericAllocationHandle*, void* address);
  CUresult (*cuMemGetAllocationPropertiesFromHandle)(CUmemAllocationProp*, CUmemGenericAllocationHandle);
  CUresult (*cuMemGetHandleForAddressRange)(void* handle, CUdeviceptr, std::size_t bytes, int type,
                                            unsigned long long flags);

  // Calls for tools and benchmarks. All may be null; see has_program_calls().
  CUresult (*cuDriverGetVersion)(int* version);
  CUresult (*cuDevicePrimaryCtxRelease)(CUdevice);
  CUresult (*cuCtxSetCurrent)(CUcontext);
  CUresult (*cuMemHostAlloc)(void** memory, std::size_t bytes, unsigned flags);
  CUresult (*cuMemFreeHost)(void* memory);
  CUresult (*cuMemcpyHtoD)(CUdeviceptr, const void* host, std::size_t bytes);
  CUresult (*cuMemcpyDtoH)(void* host, CUdeviceptr, std::size_t bytes);

  // Binds every call above; the library stays loaded for good. On failure returns false and a sentence that says why.
  bool load(const char* library, std::string* why_not);
  bool has_streams() const {
    return cuCtxGetDevice != nullptr && cuStreamGetCtx != nullptr && cuStreamIsCapturing != nullptr &&
           cuLaunchHostFunc != nullptr && cuMemHostGetDevicePointer != nullptr && cuModuleLoadData != nullptr &&
           cuModuleGetFunction != nullptr && cuLaunchKernel != nullptr;
  }
  bool has_virtual_memory() const {
    return cuDeviceGetAttribute != nullptr && cuMemGetAllocationGranularity != nullptr && cuMemCreate != nullptr &&
           cuMemRelease != nullptr && cuMemAddressReserve != nullptr && cuMemAddressFree != nullptr &&
           cuMemMap != nullptr && cuMemUnmap != nullptr && cuMemSetAccess != nullptr &&
           cuMemExportToShareableHandle != nullptr;
  }
  bool tells_of_virtual_memory() const {
    return has_virtual_memory() && cuMemRetainAllocationHandle != nullptr &&
           cuMemGetAllocationPropertiesFromHandle != nullptr;
  }
  bool has_program_calls() const {
    return cuDriverGetVersion != nullptr && cuDevicePrimaryCtxRelease != nullptr && cuCtxSetCurrent != nullptr &&
           cuMemHostAlloc != nullptr && cuMemFreeHost != nullptr && cuMemcpyHtoD != nullptr && cuMemcpyDtoH != nullptr;
  }
  // "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"
  std::string describe(CUresult result) const;
  // True while the context lives. `id` distinguishes it from an earlier context at the same address. `id` is 0 before
  // CUDA 12.0, where a context at the address of a destroyed one cannot be distinguished from it.
  CUresult identify(CUcontext context, unsigned long long* id) const;
};

}  // namespace penstock::core::cuda
