// SPDX-License-Identifier: Apache-2.0

// What undoes cuMemCreate, cuMemAddressReserve and cuMemMap of memory.cc, and the export of such memory.
#include <sys/mman.h>

#include "fakes/fake_cuda/driver_state.h"

using namespace penstock::fake_cuda;

CALL(cuMemGetAllocationGranularity, std::size_t* bytes, const int*, int) {
  ENTER;
  *bytes = std::size_t{2} << 20;
  return 0;
}
CALL(cuMemUnmap, CUdeviceptr memory, std::size_t size) {
  ENTER;
  const auto block = find(memory);
  REQUIRE(block == driver().blocks.end() || block->second.mapped != size ? CUDA_ERROR_INVALID_VALUE : 0);
  block->second.mapped = block->second.handle = 0;
  --driver().virtual_things;
  return 0;
}
CALL(cuMemRelease, unsigned long long) {
  ENTER;
  --driver().virtual_things;
  return 0;
}
// A handle is a number that tells all of its allocation; each that is given out is given back.
CALL(cuMemRetainAllocationHandle, unsigned long long* handle, CUdeviceptr memory) {
  ENTER;
  const auto block = find(memory);
  const bool is_there = block != driver().blocks.end() && memory - block->first < block->second.mapped;
  REQUIRE(!is_there || block->second.handle == 0 ? CUDA_ERROR_INVALID_VALUE : 0);
  *handle = block->second.handle;
  ++driver().virtual_things;
  return 0;
}
CALL(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp* properties, unsigned long long handle) {
  ENTER;
  *properties = {};
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->location = {CU_MEM_LOCATION_TYPE_DEVICE, static_cast<int>(handle & 0xff)};
  if ((handle & kExportable) != 0) properties->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties->allocFlags.gpuDirectRDMACapable = (handle & kRdmaCapable) != 0;
  return 0;
}
CALL(cuMemAddressFree, CUdeviceptr memory, std::size_t size) {
  ENTER;
  const auto block = find(memory);
  const bool is_whole = block != driver().blocks.end() && block->first == memory && block->second.size == size;
  REQUIRE(!is_whole || block->second.mapped != 0 ? CUDA_ERROR_INVALID_VALUE : 0);
  driver().blocks.erase(block);
  if (!give_back_exported(memory)) give_back_pages(memory, size);
  --driver().virtual_things;
  return 0;
}
// The descriptor is an empty file: nothing of the driver but itself knows what to do with it.
CALL(cuMemExportToShareableHandle, int* fd, unsigned long long handle, int type, unsigned long long) {
  ENTER;
  const bool can = (handle & kExportable) != 0 && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  REQUIRE(can ? 0 : CUDA_ERROR_INVALID_VALUE);
  *fd = ::memfd_create("fake-gpu-memory", MFD_CLOEXEC);
  return *fd < 0 ? kNotSupported : 0;
}
// As an H100's driver (580.159.04): of any device memory but managed one, by whole pages of the host, and without the
// flag for another mapping. That driver also takes what is mapped behind the allocation; this one refuses it.
CALL(cuMemGetHandleForAddressRange, int* fd, CUdeviceptr memory, std::size_t size, int type, unsigned long long flags) {
  ENTER;
  constexpr std::size_t kHostPage = 4096;
  REQUIRE(flags == 0 ? 0 : kNotSupported);
  REQUIRE((memory | size) % kHostPage == 0 ? 0 : CUDA_ERROR_INVALID_VALUE);
  const auto block = find(memory);
  const bool is_there = block != driver().blocks.end() && block->second.type == CU_MEMORYTYPE_DEVICE &&
                        block->second.managed == 0 && memory + size <= block->first + block->second.mapped;
  REQUIRE(is_there && type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ? 0 : CUDA_ERROR_INVALID_VALUE);
  *fd = is_memory_exported() ? export_memory(memory, size) : ::memfd_create("fake-dma-buf", MFD_CLOEXEC);
  return *fd < 0 ? kNotSupported : 0;
}
CALL(fake_cuda_virtual_things) {
  const std::unique_lock lock(driver().mutex);
  return driver().virtual_things;
}
