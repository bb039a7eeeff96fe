// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/nvidia_export.h"

#include "device/cuda/cuda_allocation.h"
#include "device/cuda/cuda_streams.h"

namespace penstock::core {

using namespace cuda;

namespace {

std::uint64_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

Result<std::unique_ptr<NvidiaExport>> NvidiaExport::open(const Setup& setup) {
  std::unique_ptr<NvidiaExport> made(new NvidiaExport(setup));
  const Status status = made->start();
  if (!status.ok()) return status;
  return made;
}

NvidiaExport::~NvidiaExport() {
  if (!is_inherited() && !exports_.empty()) {
    (void)drain_cuda_streams(api_, setup_.context);
    for (const auto& each : exports_) undo(each.second);
  }
}

Status NvidiaExport::start() {
  constexpr const char* kCalls = "find the CUDA driver's calls for exportable memory";
  const bool has_calls = api_.has_virtual_memory();
  const Status status = done(kCalls, {has_calls ? success() : failure(Code::unsupported, kCalls)});
  if (!status.ok()) return status;
  const WriterLock lock(mutex_);
  return client_.start(setup_.uuid);
}

// ---- One allocation. ----

Result<NvidiaExport::Piece> NvidiaExport::allocate(std::size_t size) {
  if (is_inherited()) return failure(Code::closed, "allocate GPU memory in a forked process");
  if (size == 0 || size > PTRDIFF_MAX / 2) return failure(Code::invalid_argument, "allocate GPU memory");
  const WriterLock lock(mutex_);
  if (!client_.refused().ok()) return client_.refused();
  Export made;
  const Status status = build(size, made);
  if (!status.ok()) {
    undo(made);
    return status;
  }
  exports_[made.address] = made;
  return piece_of(made);
}

Status NvidiaExport::build(std::size_t size, Export& made) {
  const ContextScope scope(api_, setup_.context);
  if (!scope.entered()) return cuda_step("enter the GPU's context", scope.result());
  const Status status = allocate_on_device(size, made);
  return status.ok() ? share(made) : status;
}

Status NvidiaExport::share(Export& made) {
  constexpr const char* kExport = "export GPU memory to a descriptor";
  int fd = -1;
  const CUresult exported =
      api_.cuMemExportToShareableHandle(&fd, made.allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (const Status status = cuda_step(kExport, exported); !status.ok()) return status;
  return client_.map(fd, made.size, made.mapping);
}

Status NvidiaExport::allocate_on_device(std::size_t size, Export& made) {
  constexpr const char* kCreate = "allocate exportable GPU memory";
  CUdevice device = 0;
  if (const Status status = cuda_step("find the GPU", api_.cuDeviceGet(&device, setup_.ordinal)); !status.ok()) {
    return status;
  }
  int is_capable = 0;
  const CUresult asked =
      api_.cuDeviceGetAttribute(&is_capable, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device);

  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  properties.allocFlags.gpuDirectRDMACapable = asked == CUDA_SUCCESS && is_capable != 0;

  std::size_t granularity = 0;
  CUresult result = api_.cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result == CUDA_SUCCESS && granularity == 0) result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) {
    made.size = (size + granularity - 1) / granularity * granularity;
    result = api_.cuMemCreate(&made.allocation, made.size, &properties, 0);
    made.has_allocation = result == CUDA_SUCCESS;
  }
  if (const Status status = cuda_step(kCreate, result); !status.ok()) return status;

  result = api_.cuMemAddressReserve(&made.address, made.size, 0, 0, 0);
  if (result != CUDA_SUCCESS) made.address = 0;
  if (const Status status = cuda_step("reserve GPU addresses", result); !status.ok()) return status;

  result = api_.cuMemMap(made.address, made.size, 0, made.allocation, 0);
  made.is_mapped_on_device = result == CUDA_SUCCESS;
  if (const Status status = cuda_step("map GPU memory on the GPU", result); !status.ok()) return status;

  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return cuda_step("allow the GPU to use its memory", api_.cuMemSetAccess(made.address, made.size, &access, 1));
}

// ---- Memory of others. ----

Result<NvidiaExport::Piece> NvidiaExport::adopt(const void* device_address, std::size_t size) {
  if (is_inherited()) return failure(Code::closed, "offer GPU memory in a forked process");
  const WriterLock lock(mutex_);
  if (!client_.refused().ok()) return client_.refused();
  Export made;
  const ContextScope scope(api_, setup_.context);
  if (!scope.entered()) return cuda_step("enter the GPU's context", scope.result());
  Status status = look_at_foreign(device_address, size, made);
  if (const auto known = exports_.find(made.address); status.ok() && known != exports_.end()) {
    api_.cuMemRelease(made.allocation);
    Export& there = known->second;
    const bool is_new = there.is_foreign && there.buffers.insert(number(device_address)).second;
    if (is_new) return piece_of(there);
    return failure(Code::already_registered, "offer GPU memory");
  }
  if (status.ok()) status = share(made);
  if (!status.ok()) {
    undo(made);
    return status;
  }
  made.buffers.insert(number(device_address));
  exports_[made.address] = made;
  return piece_of(made);
}

// Retains the allocation's handle: the memory stays as long as it is offered.
Status NvidiaExport::look_at_foreign(const void* device_address, std::size_t size, Export& made) {
  constexpr const char* kRetain = "find the allocation of the GPU memory";
  constexpr const char* kWhole = "offer GPU memory that is one exportable allocation of this GPU";
  if (!api_.tells_of_virtual_memory()) return done(kRetain, {failure(Code::unsupported, kRetain)});
  const CUresult retained = api_.cuMemRetainAllocationHandle(&made.allocation, const_cast<void*>(device_address));
  made.has_allocation = retained == CUDA_SUCCESS;
  if (const Status status = cuda_step(kRetain, retained); !status.ok()) return status;
  made.is_foreign = true;
  CUmemAllocationProp properties = {};
  const bool is_told = api_.cuMemGetAllocationPropertiesFromHandle(&properties, made.allocation) == CUDA_SUCCESS;
  const auto base = pointer_attribute<CUdeviceptr>(api_, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, device_address, 0);
  const auto bytes = pointer_attribute<std::size_t>(api_, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, device_address, 0);
  const std::uint64_t begin = number(device_address) - base;
  const bool is_ours = is_told && properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                       properties.location.id == setup_.ordinal &&
                       (properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
  const bool is_whole = base != 0 && begin < bytes && size <= bytes - begin;
  if (!is_ours || !is_whole) return done(kWhole, {failure(Code::unsupported, kWhole)});
  made.address = base;
  made.size = bytes;
  return success();
}

void NvidiaExport::drop(const void* device_address) {
  if (is_inherited()) return;
  const WriterLock lock(mutex_);
  const auto found = holder(device_address);
  if (found == exports_.end() || found->second.buffers.erase(number(device_address)) == 0) return;
  if (!found->second.buffers.empty()) return;
  undo(found->second);
  exports_.erase(found);
}

std::map<CUdeviceptr, NvidiaExport::Export>::iterator NvidiaExport::holder(const void* device_address) {
  auto after = exports_.upper_bound(number(device_address));
  if (after == exports_.begin()) return exports_.end();
  --after;
  return number(device_address) - after->first < after->second.size ? after : exports_.end();
}

void NvidiaExport::undo(const Export& made) {
  // No page may be reachable once the memory belongs to another owner.
  client_.unmap(made.mapping);
  const ContextScope scope(api_, setup_.context);
  if (made.is_mapped_on_device) api_.cuMemUnmap(made.address, made.size);
  if (made.address != 0 && !made.is_foreign) api_.cuMemAddressFree(made.address, made.size);
  if (made.has_allocation) api_.cuMemRelease(made.allocation);
}

// Waits for streams without holding the lock, because the requests that they wait for look pieces up.
void NvidiaExport::release(const Piece& piece) {
  if (is_inherited()) return;
  (void)drain_cuda_streams(api_, setup_.context);
  const WriterLock lock(mutex_);
  const auto found = exports_.find(number(piece.device_address));
  if (found == exports_.end() || found->second.is_foreign) return;
  undo(found->second);
  exports_.erase(found);
}

NvidiaExport::Piece NvidiaExport::find(const void* device_address) const {
  if (is_inherited()) return {};
  const ReaderLock lock(mutex_);
  auto after = exports_.upper_bound(number(device_address));
  if (after == exports_.begin()) return {};
  const Export& nearest = std::prev(after)->second;
  return number(device_address) - nearest.address < nearest.size ? piece_of(nearest) : Piece{};
}

}  // namespace penstock::core
