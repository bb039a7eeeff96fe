// SPDX-License-Identifier: Apache-2.0

// The driver's facts about the memory at an address. One call gives all of them, whatever context is current: any,
// none, or a dead one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "device/cuda/cuda_api.h"
#include "device/device.h"

namespace penstock::core {

struct CudaAllocation {
  cuda::CUcontext context = nullptr;
  unsigned type = 0;  // CU_MEMORYTYPE_...; 0 if the driver knows no memory there.
  unsigned managed = 0;
  int ordinal = -1;
  cuda::CUdeviceptr base = 0;
  std::size_t size = 0;
};

inline CudaAllocation find_allocation(const cuda::CudaApi& api, const void* pointer) {
  using namespace cuda;
  CudaAllocation found;
  int attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT,          CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                      CU_POINTER_ATTRIBUTE_IS_MANAGED,       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* values[] = {&found.context, &found.type, &found.managed, &found.ordinal, &found.base, &found.size};
  static_assert(std::size(attributes) == std::size(values));
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (api.cuPointerGetAttributes(std::size(attributes), attributes, values, address) != CUDA_SUCCESS) return {};
  return found;
}

// Asks for one attribute; returns `otherwise` if this driver does not know it, or not for this memory.
template <typename Value>
Value pointer_attribute(const cuda::CudaApi& api, int attribute, const void* pointer, Value otherwise) {
  Value value{};
  void* values[] = {&value};
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return api.cuPointerGetAttributes(1, &attribute, values, address) == cuda::CUDA_SUCCESS ? value : otherwise;
}

// The call by which device memory was allocated. Makes some calls to the driver.
Allocation find_allocation_call(const cuda::CudaApi& api, const void* pointer);

}  // namespace penstock::core
