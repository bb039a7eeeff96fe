// SPDX-License-Identifier: Apache-2.0

// The few calls of the CUDA driver that cases make, looked up by name in whatever stands for libcuda.so.1. Declared
// here from the driver's published interface: no CUDA toolkit is needed. A call that is missing skips the case.
#ifndef PENSTOCK_CONFORMANCE_CUDA_CALLS_H_
#define PENSTOCK_CONFORMANCE_CUDA_CALLS_H_

#include <dlfcn.h>

#include <cstddef>
#include <string>

namespace conformance {

using Address = unsigned long long;  // A CUdeviceptr.
using Result = int;                  // A CUresult.
using Context = void*;
using Event = void*;
using Graph = void*;
using Stream = void*;

constexpr Result kCudaSuccess = 0;
constexpr unsigned kStreamNonBlocking = 1;
inline const Stream kLegacyStream = reinterpret_cast<Stream>(1);
inline const Stream kPerThreadStream = reinterpret_cast<Stream>(2);

struct LacksCudaCall {
  std::string name;
};

template <typename... Arguments>
class CudaCall {
 public:
  void find(void* library, const char* name) {
    name_ = name;
    call_ = library == nullptr ? nullptr : reinterpret_cast<Result (*)(Arguments...)>(dlsym(library, name));
  }
  bool present() const { return call_ != nullptr; }
  Result operator()(Arguments... arguments) const {
    if (call_ == nullptr) throw LacksCudaCall{name_};
    return call_(arguments...);
  }

 private:
  const char* name_ = "";
  Result (*call_)(Arguments...) = nullptr;
};

// The properties of memory to be made by cuMemCreate, and its access, as the driver lays them out.
struct AllocationProperties {
  int type = 1;  // Pinned.
  int handle_types = 0;
  int location_type = 1;  // A device,
  int location_id = 0;    // the first.
  void* metadata = nullptr;
  unsigned char flags[8] = {};
};
struct AccessDescription {
  int location_type = 1;
  int location_id = 0;
  int access = 3;  // Read and write.
};

#define CONFORMANCE_CUDA_CALLS(X)                                                                   \
  X(cuInit, unsigned)                                                                               \
  X(cuDriverGetVersion, int*)                                                                       \
  X(cuDeviceGet, int*, int)                                                                         \
  X(cuDeviceGetCount, int*)                                                                         \
  X(cuDeviceGetName, char*, int, int)                                                               \
  X(cuDevicePrimaryCtxRetain, Context*, int)                                                        \
  X(cuDevicePrimaryCtxReset_v2, int)                                                                \
  X(cuCtxPushCurrent_v2, Context)                                                                   \
  X(cuCtxPopCurrent_v2, Context*)                                                                   \
  X(cuCtxGetCurrent, Context*)                                                                      \
  X(cuCtxCreate_v2, Context*, unsigned, int)                                                        \
  X(cuCtxDestroy_v2, Context)                                                                       \
  X(cuCtxSynchronize)                                                                               \
  X(cuMemAlloc_v2, Address*, std::size_t)                                                           \
  X(cuMemFree_v2, Address)                                                                          \
  X(cuMemAllocManaged, Address*, std::size_t, unsigned)                                             \
  X(cuMemHostAlloc, void**, std::size_t, unsigned)                                                  \
  X(cuMemFreeHost, void*)                                                                           \
  X(cuMemHostRegister_v2, void*, std::size_t, unsigned)                                             \
  X(cuMemHostUnregister, void*)                                                                     \
  X(cuMemcpyHtoD_v2, Address, const void*, std::size_t)                                             \
  X(cuMemcpyDtoH_v2, void*, Address, std::size_t)                                                   \
  X(cuMemcpyHtoDAsync_v2, Address, const void*, std::size_t, Stream)                                \
  X(cuMemcpyDtoHAsync_v2, void*, Address, std::size_t, Stream)                                      \
  X(cuMemsetD8_v2, Address, unsigned char, std::size_t)                                             \
  X(cuMemsetD8Async, Address, unsigned char, std::size_t, Stream)                                   \
  X(cuMemAddressReserve, Address*, std::size_t, std::size_t, Address, unsigned long long)           \
  X(cuMemCreate, unsigned long long*, std::size_t, const AllocationProperties*, unsigned long long) \
  X(cuMemMap, Address, std::size_t, std::size_t, unsigned long long, unsigned long long)            \
  X(cuMemSetAccess, Address, std::size_t, const AccessDescription*, std::size_t)                    \
  X(cuStreamCreate, Stream*, unsigned)                                                              \
  X(cuStreamDestroy_v2, Stream)                                                                     \
  X(cuStreamSynchronize, Stream)                                                                    \
  X(cuStreamQuery, Stream)                                                                          \
  X(cuStreamWaitEvent, Stream, Event, unsigned)                                                     \
  X(cuStreamBeginCapture_v2, Stream, int)                                                           \
  X(cuStreamEndCapture, Stream, Graph*)                                                             \
  X(cuLaunchHostFunc, Stream, void (*)(void*), void*)                                               \
  X(cuEventCreate, Event*, unsigned)                                                                \
  X(cuEventRecord, Event, Stream)                                                                   \
  X(cuEventSynchronize, Event)

struct CudaCalls {
#define X(name, ...) CudaCall<__VA_ARGS__> name;
  CONFORMANCE_CUDA_CALLS(X)
#undef X

  // False where there is no such library.
  bool load(const char* path) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
#define X(name, ...) name.find(library, #name);
    CONFORMANCE_CUDA_CALLS(X)
#undef X
    return library != nullptr;
  }
};

}  // namespace conformance

#endif  // PENSTOCK_CONFORMANCE_CUDA_CALLS_H_
