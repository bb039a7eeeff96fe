// SPDX-License-Identifier: Apache-2.0

#include "facts/cuda.h"

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "device/cuda/cuda_api.h"

namespace penstock::facts {

using namespace core::cuda;

namespace {

struct Driver {
  CudaApi api = {};
  std::string why_not;  // Empty if the driver is there.
};

const Driver& driver() {
  static const Driver loaded = [] {
    Driver made;
    made.api.load(kDriverLibrary, &made.why_not);
    return made;
  }();
  return loaded;
}

// Finds the GPU by its UUID: a session's ordinals need not be the driver's.
CUresult find_device(const CudaApi& api, const unsigned char* uuid, CUdevice& device) {
  unsigned char found[16] = {};
  CUresult result = api.cuInit(0);
  for (int ordinal = 0; result == CUDA_SUCCESS; ++ordinal) {
    result = api.cuDeviceGet(&device, ordinal);
    if (result == CUDA_SUCCESS) result = api.cuDeviceGetUuid(found, device);
    if (result == CUDA_SUCCESS && std::memcmp(found, uuid, sizeof found) == 0) break;
  }
  return result;
}

// Allocates and exports memory in the calling thread's context.
CUresult try_export(const CudaApi& api) {
  constexpr std::size_t kBytes = 2u << 20;  // A whole page of the GPU, whatever its page size.
  CUdeviceptr memory = 0;
  CUresult result = api.cuMemAlloc(&memory, kBytes);
  if (result != CUDA_SUCCESS) return result;
  int fd = -1;
  result = api.cuMemGetHandleForAddressRange(&fd, memory, kBytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  if (result == CUDA_SUCCESS) ::close(fd);
  api.cuMemFree(memory);
  return result;
}

}  // namespace

int cuda_version() {
  int version = 0;
  const Driver& loaded = driver();
  return loaded.why_not.empty() && loaded.api.cuDriverGetVersion(&version) == CUDA_SUCCESS ? version : 0;
}

std::string dma_buf_refusal(const unsigned char* uuid) {
  const auto& [api, why_not] = driver();
  if (!why_not.empty()) return why_not;
  if (api.cuMemGetHandleForAddressRange == nullptr) return "this driver has no such call; it comes with CUDA 11.7";
  CUdevice device = 0;
  CUcontext context = nullptr, popped = nullptr;
  CUresult result = find_device(api, uuid, device);
  if (result == CUDA_SUCCESS) result = api.cuDevicePrimaryCtxRetain(&context, device);
  if (result != CUDA_SUCCESS) return api.describe(result);
  result = api.cuCtxPushCurrent(context);
  if (result == CUDA_SUCCESS) {
    result = try_export(api);
    api.cuCtxPopCurrent(&popped);
  }
  api.cuDevicePrimaryCtxRelease(device);
  return result == CUDA_SUCCESS ? "" : api.describe(result);
}

}  // namespace penstock::facts
