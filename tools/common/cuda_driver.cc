// SPDX-License-Identifier: Apache-2.0

#include "tools/common/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>

#include "tools/common/failure.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

using Address = unsigned long long;  // CUdeviceptr
using AllocationHandle = unsigned long long;

// As the driver lays them out.
struct Location {
  int type = 1;  // A device.
  int id = 0;
};
struct AllocationProperties {
  int type = 1;  // Pinned.
  int handle_types = 0;
  Location location;
  void* windows_only = nullptr;
  unsigned char compression = 0;
  unsigned char gpu_direct_rdma = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};
static_assert(sizeof(AllocationProperties) == 32);
struct AccessDescription {
  Location location;
  int flags = 3;  // Read and write.
};
static_assert(sizeof(AccessDescription) == 12);

constexpr unsigned kPortable = 1;
constexpr unsigned kNonBlocking = 1;

}  // namespace

struct CudaDriver::Api {
  int (*cuInit)(unsigned flags);
  int (*cuDriverGetVersion)(int* version);
  int (*cuGetErrorName)(int result, const char** name);
  int (*cuDeviceGet)(int* device, int ordinal);
  int (*cuDevicePrimaryCtxRetain)(void** context, int device);
  int (*cuDevicePrimaryCtxRelease)(int device);
  int (*cuCtxSetCurrent)(void* context);
  int (*cuMemHostAlloc)(void** memory, std::size_t bytes, unsigned flags);
  int (*cuMemFreeHost)(void* memory);
  int (*cuMemcpyHtoDAsync)(Address to, const void* from, std::size_t bytes, void* stream);
  int (*cuMemcpyDtoHAsync)(void* to, Address from, std::size_t bytes, void* stream);
  int (*cuStreamCreate)(void** stream, unsigned flags);
  int (*cuStreamSynchronize)(void* stream);
  int (*cuStreamDestroy)(void* stream);
  // What follows may be missing: null then.
  int (*cuMemGetAllocationGranularity)(std::size_t* bytes, const AllocationProperties*, int minimum);
  int (*cuMemCreate)(AllocationHandle*, std::size_t bytes, const AllocationProperties*, unsigned long long flags);
  int (*cuMemRelease)(AllocationHandle);
  int (*cuMemAddressReserve)(Address*, std::size_t bytes, std::size_t align, Address hint, unsigned long long flags);
  int (*cuMemAddressFree)(Address, std::size_t bytes);
  int (*cuMemMap)(Address, std::size_t bytes, std::size_t offset, AllocationHandle, unsigned long long flags);
  int (*cuMemUnmap)(Address, std::size_t bytes);
  int (*cuMemSetAccess)(Address, std::size_t bytes, const AccessDescription*, std::size_t count);
};

namespace {

template <typename Function>
bool bind(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

const CudaDriver::Api* CudaDriver::load() {
  static const Api* const loaded = []() -> const Api* {
    static Api api{};
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) return nullptr;
    const bool whole =
        bind(library, "cuInit", api.cuInit) && bind(library, "cuDriverGetVersion", api.cuDriverGetVersion) &&
        bind(library, "cuGetErrorName", api.cuGetErrorName) && bind(library, "cuDeviceGet", api.cuDeviceGet) &&
        bind(library, "cuDevicePrimaryCtxRetain", api.cuDevicePrimaryCtxRetain) &&
        bind(library, "cuDevicePrimaryCtxRelease_v2", api.cuDevicePrimaryCtxRelease) &&
        bind(library, "cuCtxSetCurrent", api.cuCtxSetCurrent) && bind(library, "cuMemHostAlloc", api.cuMemHostAlloc) &&
        bind(library, "cuMemFreeHost", api.cuMemFreeHost) &&
        bind(library, "cuMemcpyHtoDAsync_v2", api.cuMemcpyHtoDAsync) &&
        bind(library, "cuMemcpyDtoHAsync_v2", api.cuMemcpyDtoHAsync) &&
        bind(library, "cuStreamCreate", api.cuStreamCreate) &&
        bind(library, "cuStreamSynchronize", api.cuStreamSynchronize) &&
        bind(library, "cuStreamDestroy_v2", api.cuStreamDestroy);
    if (!whole) return nullptr;
    (void)(bind(library, "cuMemGetAllocationGranularity", api.cuMemGetAllocationGranularity) &&
           bind(library, "cuMemRelease", api.cuMemRelease) &&
           bind(library, "cuMemAddressReserve", api.cuMemAddressReserve) &&
           bind(library, "cuMemAddressFree", api.cuMemAddressFree) && bind(library, "cuMemMap", api.cuMemMap) &&
           bind(library, "cuMemUnmap", api.cuMemUnmap) && bind(library, "cuMemSetAccess", api.cuMemSetAccess) &&
           bind(library, "cuMemCreate", api.cuMemCreate));  // The last: where it is there, all are.
    return &api;
  }();
  return loaded;
}

void CudaDriver::require_success(int result, const char* call) const {
  if (result == 0) return;
  const char* name = nullptr;
  if (api_.cuGetErrorName(result, &name) != 0 || name == nullptr) name = "an unknown error";
  throw Failure(fmt::format("{}: {} ({})", call, name, result));
}

namespace {

[[noreturn]] void fail_without_driver() {
  throw Failure("this needs a GPU and its driver: libcuda.so.1 cannot be loaded, or is too old", kNotApplicable);
}

}  // namespace

CudaDriver::CudaDriver(unsigned gpu) : api_(load() != nullptr ? *load() : (fail_without_driver(), *load())) {
  require_success(api_.cuInit(0), "cuInit");
  require_success(api_.cuDeviceGet(&device_, static_cast<int>(gpu)), "cuDeviceGet");
  require_success(api_.cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
}

CudaDriver::~CudaDriver() { api_.cuDevicePrimaryCtxRelease(device_); }

void CudaDriver::enter() const { require_success(api_.cuCtxSetCurrent(context_), "cuCtxSetCurrent"); }

Arena CudaDriver::pinned_host(std::size_t size) const {
  void* memory = nullptr;
  require_success(api_.cuMemHostAlloc(&memory, size, kPortable), "cuMemHostAlloc");
  return {static_cast<std::byte*>(memory), size, nullptr, [this, memory] { api_.cuMemFreeHost(memory); }};
}

Arena CudaDriver::virtual_memory(penstock_session* session, std::size_t size) const {
  if (api_.cuMemCreate == nullptr) throw Failure("this driver has no cuMemCreate", kNotApplicable);
  AllocationProperties properties;
  properties.location.id = device_;
  std::size_t granularity = 0;
  require_success(api_.cuMemGetAllocationGranularity(&granularity, &properties, 0), "cuMemGetAllocationGranularity");
  const std::size_t whole = (size + granularity - 1) / granularity * granularity;
  AllocationHandle allocation = 0;
  require_success(api_.cuMemCreate(&allocation, whole, &properties, 0), "cuMemCreate");
  // Mapped memory outlives its handle.
  const std::shared_ptr<void> handle(nullptr, [this, allocation](void*) { api_.cuMemRelease(allocation); });
  Address address = 0;
  require_success(api_.cuMemAddressReserve(&address, whole, 0, 0, 0), "cuMemAddressReserve");
  Arena arena(reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address)), size, session, [=, this] {
    api_.cuMemUnmap(address, whole);
    api_.cuMemAddressFree(address, whole);
  });
  require_success(api_.cuMemMap(address, whole, 0, allocation, 0), "cuMemMap");
  AccessDescription access;
  access.location.id = device_;
  require_success(api_.cuMemSetAccess(address, whole, &access, 1), "cuMemSetAccess");
  return arena;
}

CudaDriver::Stream CudaDriver::open_stream() const {
  void* stream = nullptr;
  require_success(api_.cuStreamCreate(&stream, kNonBlocking), "cuStreamCreate");
  return stream;
}

void CudaDriver::close_stream(Stream stream) const {
  api_.cuStreamSynchronize(stream);
  api_.cuStreamDestroy(stream);
}

void CudaDriver::wait(Stream stream) const { require_success(api_.cuStreamSynchronize(stream), "cuStreamSynchronize"); }

void CudaDriver::copy_to_device(void* to, const void* from, std::size_t size, Stream stream) const {
  require_success(api_.cuMemcpyHtoDAsync(reinterpret_cast<std::uintptr_t>(to), from, size, stream),
                  "cuMemcpyHtoDAsync");
}

void CudaDriver::copy_to_host(void* to, const void* from, std::size_t size, Stream stream) const {
  require_success(api_.cuMemcpyDtoHAsync(to, reinterpret_cast<std::uintptr_t>(from), size, stream),
                  "cuMemcpyDtoHAsync");
}

std::optional<int> CudaDriver::version() {
  const Api* api = load();
  int version = 0;
  if (api == nullptr || api->cuDriverGetVersion(&version) != 0) return std::nullopt;
  return version;
}

}  // namespace penstock::tools
