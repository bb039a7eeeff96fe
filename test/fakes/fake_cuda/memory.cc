// SPDX-License-Identifier: Apache-2.0

// Memory of all kinds, and what is done to it at once.
#include <cstring>

#include "fakes/fake_cuda/driver_state.h"

namespace penstock::fake_cuda {

std::map<CUdeviceptr, Block>::iterator find(CUdeviceptr wanted) {
  auto after = driver().blocks.upper_bound(wanted);
  if (after == driver().blocks.begin()) return driver().blocks.end();
  --after;
  return wanted - after->first < after->second.size ? after : driver().blocks.end();
}

namespace {

CUresult add(CUdeviceptr* made, std::size_t size, Block block) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool is_exported = block.type == CU_MEMORYTYPE_DEVICE && block.managed == 0 && is_memory_exported();
  void* const memory = size >> 46 ? nullptr : is_exported ? take_exported(size) : take_pages(size);
  if (memory == nullptr) return 2;
  static unsigned long long allocations = 0;
  block.number = ++allocations;
  driver().blocks[*made = address(memory)] = block;
  return CUDA_SUCCESS;
}

// Memory of the current context, as the driver tells it.
Block here(std::size_t size, unsigned type, unsigned managed = 0) {
  return {size, current(), current()->device, type, managed, size};
}

// Synchronous calls are work of the default stream.
CUresult at_once(Work work, std::unique_lock<std::mutex>& lock) {
  REQUIRE(outside_capture());
  REQUIRE(need_context());
  const CUdeviceptr on_device = work.kind == Work::Kind::copy && !work.to_device ? work.from : work.to;
  const auto block = find(on_device);
  if (block == driver().blocks.end() || on_device + work.size > block->first + block->second.mapped) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  REQUIRE(enqueue(nullptr, std::move(work)));
  CUresult result = CUDA_SUCCESS;
  const CUstream stream = resolve(nullptr, result);
  drive(stream, stream->end(), lock);
  return result;
}

}  // namespace
}  // namespace penstock::fake_cuda

using namespace penstock::fake_cuda;

// A table of calls: kept dense, to be read as one.
// clang-format off
CALL(cuMemAlloc_v2, CUdeviceptr* made, std::size_t size) {
  ENTER; REQUIRE(outside_capture()); REQUIRE(need_context());
  return add(made, size, here(size, CU_MEMORYTYPE_DEVICE));
}
CALL(cuMemAllocManaged, CUdeviceptr* made, std::size_t size, unsigned) {
  ENTER; REQUIRE(need_context()); return add(made, size, here(size, CU_MEMORYTYPE_DEVICE, 1));
}
CALL(cuMemHostAlloc, CUdeviceptr* made, std::size_t size, unsigned) {
  ENTER; REQUIRE(need_context()); return add(made, size, here(size, CU_MEMORYTYPE_HOST));
}
CALL(cuMemAllocAsync, CUdeviceptr* made, std::size_t size, CUstream stream) {
  ENTER; return add(made, size, {size, nullptr, stream->owner.context->device, CU_MEMORYTYPE_DEVICE, 0, size, 0, true});
}
CALL(cuMemAddressReserve, CUdeviceptr* made, std::size_t size, std::size_t, CUdeviceptr, unsigned long long) {
  ENTER; REQUIRE(add(made, size, {size, nullptr, -2, CU_MEMORYTYPE_DEVICE, 0, 0})); ++driver().virtual_things; return 0;
}
CALL(cuMemCreate, unsigned long long* handle, std::size_t, const CUmemAllocationProp* properties, unsigned long long) {
  ENTER; *handle = static_cast<unsigned long long>(properties->location.id) | kCreated;
  if (properties->allocFlags.gpuDirectRDMACapable != 0) *handle |= kRdmaCapable;
  if (properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) *handle |= kExportable;
  ++driver().virtual_things;
  return 0;
}
CALL(cuMemMap, CUdeviceptr where, std::size_t size, std::size_t, unsigned long long handle, unsigned long long) {
  ENTER; auto& block = driver().blocks.at(where); block.mapped = size; block.device = static_cast<int>(handle & 0xff);
  block.handle = handle;
  ++driver().virtual_things;
  return 0;
}
CALL(cuMemSetAccess, CUdeviceptr, std::size_t, const int*, std::size_t) { ENTER; return 0; }
// Waits for all streams of the context, those that have nothing to do with the memory too, as the real one does.
CALL(cuMemFree_v2, CUdeviceptr memory) {
  ENTER; REQUIRE(outside_capture());
  const auto block = driver().blocks.find(memory);
  if (block == driver().blocks.end()) return CUDA_ERROR_INVALID_VALUE;
  const Block freed = block->second;
  if (freed.context != nullptr) drive_all(freed.context, lock);
  if (!give_back_exported(memory)) give_back_pages(memory, freed.size);
  driver().blocks.erase(memory);
  return 0;
}
CALL(cuMemFreeHost, CUdeviceptr memory) { return cuMemFree_v2(memory); }
CALL(cuMemHostRegister_v2, CUdeviceptr memory, std::size_t size, unsigned) {
  ENTER; REQUIRE(outside_capture()); REQUIRE(need_context()); REQUIRE(need_memory());
  return driver().blocks.insert({memory, here(size, CU_MEMORYTYPE_HOST)}).second ? 0 : kAlreadyRegistered;
}
// Waits for every stream that is held, as the real one does.
CALL(cuMemHostUnregister, CUdeviceptr memory) {
  ENTER; REQUIRE(outside_capture());
  REQUIRE(driver().blocks.contains(memory) ? 0 : kNotRegistered);
  driver().blocks.erase(memory);
  const auto none_held = [] {
    for (const CUstream_st& stream : driver().streams) if (is_held(stream)) return false;
    return true;
  };
  while (!none_held()) driver().changed.wait_for(lock, std::chrono::microseconds(100));
  return 0;
}
CALL(cuMemHostGetDevicePointer_v2, CUdeviceptr* on_device, void* host, unsigned) {
  ENTER; REQUIRE(find(address(host)) == driver().blocks.end() ? CUDA_ERROR_INVALID_VALUE : 0);
  *on_device = address(host); return 0;
}
CALL(cuPointerGetAttributes, unsigned count, int* attributes, void** values, CUdeviceptr wanted) {
  ENTER;
  ++driver().lookups;
  const auto found = find(wanted);
  const bool known = found != driver().blocks.end();
  Block block = known ? found->second : Block{0, nullptr, -2, 0, 0, 0};
  const CUdeviceptr base = known ? found->first : 0;
  void* const pool = block.is_pooled ? &driver() : nullptr;
  if (wanted - base >= block.mapped) block.context = nullptr, block.device = -2, block.type = 0;
  const std::map<int, std::pair<const void*, std::size_t>> answers = {
      {CU_POINTER_ATTRIBUTE_CONTEXT, {&block.context, 8}}, {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, {&block.type, 4}},
      {CU_POINTER_ATTRIBUTE_IS_MANAGED, {&block.managed, 1}}, {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, {&block.device, 4}},
      {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, {&base, 8}}, {CU_POINTER_ATTRIBUTE_RANGE_SIZE, {&block.size, 8}},
      {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, {&pool, 8}}, {CU_POINTER_ATTRIBUTE_BUFFER_ID, {&block.number, 8}},
      {CU_POINTER_ATTRIBUTE_MAPPING_SIZE, {&block.mapped, 8}},
      {CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, {&base, 8}}};
  for (unsigned i = 0; i < count; ++i) {
    const auto& [value, bytes] = answers.at(attributes[i]);
    std::memcpy(values[i], value, bytes);
  }
  return 0;
}
CALL(cuMemcpyHtoD_v2, CUdeviceptr to, const void* from, std::size_t size) {
  ENTER; REQUIRE(size == 0 ? need_context() : 0); if (size == 0) return 0;
  return at_once({.kind = Work::Kind::copy, .to = to, .from = address(from), .size = size, .to_device = true}, lock);
}
CALL(cuMemcpyDtoH_v2, void* to, CUdeviceptr from, std::size_t size) {
  ENTER; REQUIRE(size == 0 ? need_context() : 0); if (size == 0) return 0;
  return at_once({.kind = Work::Kind::copy, .to = address(to), .from = from, .size = size}, lock);
}
CALL(cuMemsetD8_v2, CUdeviceptr to, unsigned char value, std::size_t size) {
  ENTER; REQUIRE(size == 0 ? need_context() : 0); if (size == 0) return 0;
  return at_once({.kind = Work::Kind::fill, .to = to, .size = size, .value = value}, lock);
}
// clang-format on
