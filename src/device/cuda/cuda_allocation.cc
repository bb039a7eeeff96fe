// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/cuda_allocation.h"

namespace penstock::core {

using namespace cuda;

// Seen on an H100 (driver 580.159.04, 2026-11-25): cuMemRetainAllocationHandle succeeds only for memory that cuMemMap
// mapped; memory of cudaMallocAsync has a pool as an attribute.
Allocation find_allocation_call(const CudaApi& api, const void* pointer) {
  const CudaAllocation found = find_allocation(api, pointer);
  if (found.managed != 0) return Allocation::managed;
  if (found.type != CU_MEMORYTYPE_DEVICE) return Allocation::unknown;
  if (pointer_attribute<void*>(api, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer, nullptr) != nullptr) {
    return Allocation::pool;
  }
  if (!api.tells_of_virtual_memory()) return Allocation::unknown;
  CUmemGenericAllocationHandle handle = 0;
  if (api.cuMemRetainAllocationHandle(&handle, const_cast<void*>(pointer)) != CUDA_SUCCESS) return Allocation::plain;
  CUmemAllocationProp properties = {};
  const CUresult result = api.cuMemGetAllocationPropertiesFromHandle(&properties, handle);
  api.cuMemRelease(handle);
  if (result != CUDA_SUCCESS) return Allocation::unknown;
  if ((properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0) return Allocation::closed;
  return properties.allocFlags.gpuDirectRDMACapable != 0 ? Allocation::exportable : Allocation::not_rdma_capable;
}

}  // namespace penstock::core
