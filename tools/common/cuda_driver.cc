// SPDX-License-Identifier: Apache-2.0

#include "tools/common/cuda_driver.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "device/cuda/cuda_api.h"
#include "tools/common/failure.h"

namespace penstock::tools {

using namespace core::cuda;

namespace {

struct Loaded {
  CudaApi api = {};
  std::string why_not;  // Empty if the driver is there.
};

const Loaded& load() {
  static const Loaded loaded = [] {
    Loaded made;
    const bool is_loaded = made.api.load(kDriverLibrary, &made.why_not);
    if (is_loaded && !made.api.has_program_calls()) made.why_not = std::string(kDriverLibrary) + " is too old";
    return made;
  }();
  return loaded;
}

const CudaApi& require_driver() {
  if (const std::string& why_not = load().why_not; !why_not.empty()) {
    throw Failure("this needs a GPU and its driver: " + why_not, kNotApplicable);
  }
  return load().api;
}

CUstream as_stream(CudaDriver::Stream stream) { return static_cast<CUstream>(stream); }
CUcontext as_context(void* context) { return static_cast<CUcontext>(context); }

}  // namespace

void CudaDriver::require_success(int result, const char* call) const {
  if (result != CUDA_SUCCESS) throw Failure(fmt::format("{}: {}", call, api_.describe(result)));
}

std::unique_ptr<CudaDriver> CudaDriver::open(penstock_session* session, unsigned gpu) {
  DeviceInfo device;
  require(penstock_device_get(session, gpu, &device), fmt::format("GPU {}", gpu));
  const bool is_cuda = std::string_view(device.kind) == "cuda";
  return std::unique_ptr<CudaDriver>(is_cuda ? new CudaDriver(device.uuid) : nullptr);
}

CudaDriver::CudaDriver(const unsigned char* uuid) : api_(require_driver()) {
  CUcontext context = nullptr;
  unsigned char found[16] = {};
  require_success(api_.cuInit(0), "cuInit");
  for (int ordinal = 0; ordinal == 0 || std::memcmp(found, uuid, sizeof found) != 0; ++ordinal) {
    require_success(api_.cuDeviceGet(&device_, ordinal), "cuDeviceGet");
    require_success(api_.cuDeviceGetUuid(found, device_), "cuDeviceGetUuid");
  }
  require_success(api_.cuDevicePrimaryCtxRetain(&context, device_), "cuDevicePrimaryCtxRetain");
  context_ = context;
}

CudaDriver::~CudaDriver() { api_.cuDevicePrimaryCtxRelease(device_); }

void CudaDriver::enter() const { require_success(api_.cuCtxSetCurrent(as_context(context_)), "cuCtxSetCurrent"); }

Arena CudaDriver::pinned_host(std::size_t size) const {
  void* memory = nullptr;
  require_success(api_.cuMemHostAlloc(&memory, size, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
  return {static_cast<std::byte*>(memory), size, nullptr, [this, memory] { api_.cuMemFreeHost(memory); }};
}

Arena CudaDriver::virtual_memory(penstock_session* session, std::size_t size) const {
  if (!api_.has_virtual_memory()) throw Failure("this driver has no cuMemCreate", kNotApplicable);
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
  std::size_t granularity = 0;
  require_success(api_.cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                  "cuMemGetAllocationGranularity");
  const std::size_t whole = (size + granularity - 1) / granularity * granularity;
  CUmemGenericAllocationHandle allocation = 0;
  require_success(api_.cuMemCreate(&allocation, whole, &properties, 0), "cuMemCreate");
  // Mapped memory outlives the handle of its allocation.
  const std::shared_ptr<void> handle(nullptr, [this, allocation](void*) { api_.cuMemRelease(allocation); });
  CUdeviceptr address = 0;
  require_success(api_.cuMemAddressReserve(&address, whole, 0, 0, 0), "cuMemAddressReserve");
  Arena arena(reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address)), size, session, [=, this] {
    api_.cuMemUnmap(address, whole);
    api_.cuMemAddressFree(address, whole);
  });
  require_success(api_.cuMemMap(address, whole, 0, allocation, 0), "cuMemMap");
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  require_success(api_.cuMemSetAccess(address, whole, &access, 1), "cuMemSetAccess");
  return arena;
}

CudaDriver::Stream CudaDriver::open_stream() const {
  CUstream stream = nullptr;
  require_success(api_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  return stream;
}

void CudaDriver::close_stream(Stream stream) const {
  api_.cuStreamSynchronize(as_stream(stream));
  api_.cuStreamDestroy(as_stream(stream));
}

void CudaDriver::wait(Stream stream) const {
  require_success(api_.cuStreamSynchronize(as_stream(stream)), "cuStreamSynchronize");
}

void CudaDriver::copy_to_device(void* to, const void* from, std::size_t size, Stream stream) const {
  require_success(api_.cuMemcpyHtoDAsync(reinterpret_cast<std::uintptr_t>(to), from, size, as_stream(stream)),
                  "cuMemcpyHtoDAsync");
}

void CudaDriver::copy_to_host(void* to, const void* from, std::size_t size, Stream stream) const {
  require_success(api_.cuMemcpyDtoHAsync(to, reinterpret_cast<std::uintptr_t>(from), size, as_stream(stream)),
                  "cuMemcpyDtoHAsync");
}

}  // namespace penstock::tools
