// SPDX-License-Identifier: Apache-2.0

// Calls that Penstock does not make, and KvikIO looks for when it opens the driver: it starts with none if one is
// missing. It calls none of them while its compatibility mode is off, but for cuPointerGetAttribute.
#include "fakes/fake_cuda/driver_state.h"

using namespace penstock::fake_cuda;

extern "C" {
CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t size, CUstream stream);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t size, CUstream stream);
CUresult cuPointerGetAttributes(unsigned count, int* attributes, void** values, CUdeviceptr wanted);
}

namespace {

unsigned type_of(CUdeviceptr memory) {
  unsigned type = 0;
  int attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* value = &type;
  return cuPointerGetAttributes(1, &attribute, &value, memory) == CUDA_SUCCESS ? type : 0;
}

}  // namespace

// A table of calls: kept dense, to be read as one.
// clang-format off
CALL(cuCtxCreate_v4, CUcontext* context, void*, unsigned flags, CUdevice device) {
  return cuCtxCreate_v2(context, flags, device);
}
CALL(cuPointerGetAttribute, void* value, int attribute, CUdeviceptr wanted) {
  return type_of(wanted) == 0 ? CUDA_ERROR_INVALID_VALUE : cuPointerGetAttributes(1, &attribute, &value, wanted);
}
CALL(cuMemGetAddressRange_v2, CUdeviceptr* base, std::size_t* size, CUdeviceptr wanted) {
  if (type_of(wanted) != CU_MEMORYTYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  int attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* values[] = {base, size};
  return cuPointerGetAttributes(2, attributes, values, wanted);
}
CALL(cuMemcpyAsync, CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream) {
  if (type_of(to) != CU_MEMORYTYPE_DEVICE) {
    return cuMemcpyDtoHAsync_v2(reinterpret_cast<void*>(to), from, size, stream);
  }
  if (type_of(from) == CU_MEMORYTYPE_DEVICE) return cuMemcpyDtoDAsync_v2(to, from, size, stream);
  return cuMemcpyHtoDAsync_v2(to, reinterpret_cast<const void*>(from), size, stream);
}
CALL(cuMemcpyBatchAsync_v2, CUdeviceptr*) { return kNotSupported; }
// clang-format on
