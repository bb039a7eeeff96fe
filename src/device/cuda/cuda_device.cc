// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/cuda_device.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>
#include <vector>

#include "base/gpu_product.h"
#include "base/invariant.h"
#include "base/log.h"
#include "device/cuda/checksum_kernel.h"
#include "device/cuda/cuda_allocation.h"
#include "device/cuda/cuda_copy_queue.h"
#include "device/cuda/hash_kernel.h"

namespace penstock::core {
namespace {

using namespace cuda;

CUdeviceptr address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

// Facts that the driver does not report stay empty: none of them is needed to move bytes.
DeviceFacts gather_facts(const CudaApi& api, unsigned ordinal, const DeviceTerms& terms) {
  DeviceFacts facts;
  facts.ordinal = static_cast<int>(terms.first_ordinal + ordinal);
  facts.kind = terms.kind;
  facts.is_nvidia = true;
  CUdevice device = 0;
  if (api.cuDeviceGet(&device, static_cast<int>(ordinal)) != CUDA_SUCCESS) return facts;
  if (api.cuDeviceGetName(facts.name, sizeof facts.name, device) != CUDA_SUCCESS) facts.name[0] = '\0';
  facts.is_pinned_for_modules = is_pinned_for_modules(facts.name);
  api.cuDeviceGetUuid(facts.uuid, device);
  std::size_t bytes = 0;
  if (api.cuDeviceTotalMem(&bytes, device) == CUDA_SUCCESS) facts.memory_bytes = bytes;
  // Writes the address like /sys: lower case, four digits of domain. The driver's own form has varied in both.
  char address[32] = "";
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (api.cuDeviceGetPCIBusId(address, sizeof address, device) == CUDA_SUCCESS &&
      std::sscanf(address, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4) {
    std::snprintf(facts.pci_address, sizeof facts.pci_address, "%04x:%02x:%02x.%x", domain, bus & 0xffu, slot & 0xffu,
                  function & 0xfu);
  }
  return facts;
}

}  // namespace

CudaDevice::CudaDevice(CudaDeviceSet& set, unsigned ordinal, const Context& context, bool primary)
    : Device(this, this), set_(set), ordinal_(ordinal), context_(context), primary_(primary),
      facts_(gather_facts(set.api(), ordinal, set.terms())), scatter_(set.api(), static_cast<int>(ordinal)),
      checksum_kernel_(set.api(), static_cast<int>(ordinal), kChecksumKernelName, checksum_kernel_text),
      hash_kernel_(set.api(), static_cast<int>(ordinal), kHashKernelName, hash_kernel_text) {}

const CudaApi& CudaDevice::api() const { return set_.api(); }

Result<std::unique_ptr<CopyQueue>> CudaDevice::open_copy_queue(unsigned markers) {
  auto queue = std::make_unique<CudaCopyQueue>(*this);
  const Status status = queue->open(markers);
  if (!status.ok()) return status;
  return std::unique_ptr<CopyQueue>(std::move(queue));
}

Status CudaDevice::register_host(void* memory, std::size_t size) {
  constexpr const char* kStep = "page-lock host memory for the GPU";
  const Result<CudaDevice*> home = set_.primary(ordinal_);
  if (!home.ok()) return home.status();
  const ContextScope scope(api(), home.value()->context());
  if (!scope.entered()) return cuda_status(scope.result(), kStep);
  const CUresult result =
      api().cuMemHostRegister(memory, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  return register_status(result, kStep);
}

bool CudaDevice::unregister_host(void* memory) {
  if (is_any_cuda_stream_busy(api())) return false;
  const Result<CudaDevice*> home = set_.primary(ordinal_);
  if (!home.ok()) return true;
  const ContextScope scope(api(), home.value()->context());
  if (scope.entered()) api().cuMemHostUnregister(memory);
  return true;
}

// Registers for this context only: registering for all contexts costs once for each.
Status CudaDevice::register_pages(const std::byte* memory, std::size_t size, bool writable) {
  constexpr const char* kStep = "register a file's pages with the GPU";
  const ContextScope scope(api(), context_);
  if (!scope.entered()) return cuda_status(scope.result(), kStep);
  const unsigned flags = CU_MEMHOSTREGISTER_DEVICEMAP | (writable ? 0 : CU_MEMHOSTREGISTER_READ_ONLY);
  return cuda_status(api().cuMemHostRegister(const_cast<std::byte*>(memory), size, flags), kStep);
}

bool CudaDevice::unregister_pages(const std::byte* memory) {
  if (!can_unregister_pages()) return false;
  const ContextScope scope(api(), context_);
  if (scope.entered()) api().cuMemHostUnregister(const_cast<std::byte*>(memory));
  return true;
}

Result<void*> CudaDevice::address_in_kernels(void* memory) {
  constexpr const char* kStep = "find registered memory's address on the GPU";
  if (api().cuMemHostGetDevicePointer == nullptr) return failure(Code::unsupported, kStep);
  const ContextScope scope(api(), context_);
  if (!scope.entered()) return cuda_status(scope.result(), kStep);
  CUdeviceptr address = 0;
  const Status status = cuda_status(api().cuMemHostGetDevicePointer(&address, memory, 0), kStep);
  if (!status.ok()) return status;
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

Status CudaDevice::wait_for_kernels() {
  return cuda_status(drain_cuda_streams(api(), context_), "wait for the GPU's kernels");
}

bool CudaDevice::can_register_pages() const {
  return attribute(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED) != 0;
}

// Returns 0 if the driver does not know the attribute.
int CudaDevice::attribute(int which) const {
  CUdevice device = 0;
  int value = 0;
  const bool is_told = api().cuDeviceGetAttribute != nullptr &&
                       api().cuDeviceGet(&device, static_cast<int>(ordinal_)) == CUDA_SUCCESS &&
                       api().cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS;
  return is_told ? value : 0;
}

// Drivers before CUDA 11.3 have neither the attribute nor the call: nothing can be done there.
Status CudaDevice::settle_peer_writes() {
  constexpr const char* kStep = "flush what other devices have written to the GPU";
  if (writes_settle_themselves_.load(std::memory_order_relaxed)) return success();
  const bool can_flush = api().cuFlushGPUDirectRDMAWrites != nullptr &&
                         (attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) &
                          CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) != 0;
  const int ordering = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
  if (!can_flush || ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER) {
    writes_settle_themselves_.store(true, std::memory_order_relaxed);
    return success();
  }
  const ContextScope scope(api(), context_);
  if (!scope.entered()) return cuda_status(scope.result(), kStep);
  return cuda_status(api().cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                                      CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
                     kStep);
}

// A cudaMemcpy of up to 64 KiB from pageable memory returns before its bytes have landed.
void CudaDevice::make_copies_synchronous(const void* memory) {
  const ContextScope scope(api(), context_);
  const unsigned on = 1;
  if (!scope.entered() || api().cuPointerSetAttribute == nullptr) return;
  api().cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address_of(memory));
}

Status CudaDevice::run_inside(const std::function<void()>& work) {
  const ContextScope scope(api(), context_);
  if (!scope.entered()) return cuda_status(scope.result(), "enter the GPU's context");
  work();
  return success();
}

Result<void*> CudaDevice::allocate(std::size_t size) {
  constexpr const char* kStep = "allocate GPU memory";
  if (NvidiaExport* const own = exporter()) {
    const Result<NvidiaExport::Piece> piece = own->allocate(size);
    if (piece.ok()) return piece->device_address;
    log(LogLevel::warn, core::describe(piece.status(), facts_.kind));
  }
  const ContextScope scope(api(), context_);
  if (!scope.entered()) return cuda_status(scope.result(), kStep);
  CUdeviceptr memory = 0;
  const Status status = cuda_status(api().cuMemAlloc(&memory, size), kStep);
  if (!status.ok()) return status;
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory));
}

NvidiaExport* CudaDevice::exporter() const { return set_.exporter(*this); }

// Accepts only memory that cuMemCreate made, for instance for a framework's own pool, and not that of cuMemAlloc.
std::uint64_t CudaDevice::offer(const PointerFacts& memory, const void* buffer, std::size_t size) {
  NvidiaExport* const own = exporter();
  if (own == nullptr) return 0;
  const Result<NvidiaExport::Piece> piece = own->adopt(buffer, size);
  if (!piece.ok()) {
    log(LogLevel::info, core::describe(piece.status(), facts_.kind));
    return 0;
  }
  const auto from = reinterpret_cast<std::uintptr_t>(piece->device_address);
  return reinterpret_cast<std::uintptr_t>(piece->mapped) - (from - memory.base);
}

void CudaDevice::withdraw(const void* buffer) {
  if (NvidiaExport* const own = exporter()) own->drop(buffer);
}

Result<UniqueFd> CudaDevice::export_dmabuf(const void* memory, std::size_t size) {
  constexpr const char* kStep = "export GPU memory as a dma-buf";
  if (api().cuMemGetHandleForAddressRange == nullptr) return failure(Code::unsupported, kStep);
  const ContextScope scope(api(), context_);
  if (!scope.entered()) return cuda_status(scope.result(), kStep);
  int fd = -1;
  const Status status = cuda_status(
      api().cuMemGetHandleForAddressRange(&fd, static_cast<cuda::CUdeviceptr>(reinterpret_cast<std::uintptr_t>(memory)),
                                          size, cuda::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
      kStep);
  if (!status.ok()) return status;
  return UniqueFd(fd);
}

std::uint64_t CudaDevice::allocation_number(const void* memory) const {
  return pointer_attribute(api(), CU_POINTER_ATTRIBUTE_BUFFER_ID, memory, std::uint64_t{0});
}

void CudaDevice::release(void* memory) {
  if (NvidiaExport* const own = exporter()) {
    const NvidiaExport::Piece piece = own->find(memory);
    if (piece.device_address != nullptr) return own->release(piece);
  }
  const ContextScope scope(api(), context_);
  if (scope.entered()) api().cuMemFree(address_of(memory));
}

Result<std::unique_ptr<CudaDeviceSet>> CudaDeviceSet::open(std::string* why_not, const char* library,
                                                           const DeviceTerms& terms) {
  constexpr const char* kStep = "open the CUDA driver";
  std::unique_ptr<CudaDeviceSet> set(new CudaDeviceSet(terms));
  if (!set->api_.load(library, why_not)) return failure(Code::no_device, kStep);
  int count = 0;
  CUresult result = set->api_.cuInit(0);
  if (result == CUDA_SUCCESS) result = set->api_.cuDeviceGetCount(&count);
  if (result == CUDA_SUCCESS && count <= 0) result = CUDA_ERROR_NO_DEVICE;
  if (result != CUDA_SUCCESS) {
    *why_not = "the CUDA driver (" + std::string(library) + ") does not start: " + set->api_.describe(result) +
               "; see what nvidia-smi says, and check CUDA_VISIBLE_DEVICES";
    return failure(Code::no_device, kStep);
  }
  set->count_ = static_cast<unsigned>(count);
  why_not->clear();
  return set;
}

CudaDeviceSet::~CudaDeviceSet() {
  for (const auto& slot : devices_) delete slot.load();
}

Result<Device*> CudaDeviceSet::device(unsigned place) {
  const Result<CudaDevice*> found = primary(place);
  if (!found.ok()) return found.status();
  return static_cast<Device*>(found.value());
}

Device* CudaDeviceSet::current() {
  const OutsideCapture outside(api_);
  CUcontext context = nullptr;
  if (api_.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return nullptr;
  const Result<int> ordinal = current_ordinal(api_, "find the current GPU");
  return ordinal.ok() ? device_of(context, *ordinal) : nullptr;
}

Allocation CudaDeviceSet::allocation_of(const void* pointer) { return find_allocation_call(api_, pointer); }

PointerFacts CudaDeviceSet::describe(const void* pointer) {
  const CudaAllocation found = find_allocation(api_, pointer);
  if (found.managed != 0) {
    return {MemoryKind::managed, device_of(found.context, found.ordinal), found.base, found.size};
  }
  if (found.type == CU_MEMORYTYPE_DEVICE) {
    PointerFacts facts{MemoryKind::device, device_of(found.context, found.ordinal), found.base, found.size};
    facts.is_fresh = true;
    if (terms_.export_memory) find_mapped(pointer, found.ordinal, facts);
    return facts;
  }
  if (found.type == CU_MEMORYTYPE_HOST) return {MemoryKind::registered_host, nullptr, found.base, found.size};
  return {};  // Also for reserved address space without memory.
}

NvidiaExport* CudaDeviceSet::exporter(const CudaDevice& device) {
  const unsigned ordinal = device.ordinal();
  if (!terms_.export_memory || !device.is_primary() || ordinal >= kExportersMax) return nullptr;
  Exporter& exporter = exporters_[ordinal];
  std::call_once(exporter.tried, [&] {
    std::array<std::uint8_t, 16> uuid;
    std::copy(std::begin(device.facts().uuid), std::end(device.facts().uuid), uuid.begin());
    Result<std::unique_ptr<NvidiaExport>> opened = NvidiaExport::open(
        {.api = api_, .context = device.context(), .ordinal = static_cast<int>(ordinal), .uuid = uuid});
    if (opened.ok()) {
      exporter.value = std::move(*opened);
      exporter.ready.store(exporter.value.get(), std::memory_order_release);
    } else {
      log(LogLevel::warn, core::describe(opened.status(), terms_.kind));
    }
  });
  return exporter.ready.load(std::memory_order_acquire);
}

void CudaDeviceSet::find_mapped(const void* pointer, int ordinal, PointerFacts& facts) const {
  if (ordinal < 0 || static_cast<unsigned>(ordinal) >= kExportersMax) return;
  const NvidiaExport* const exporter = exporters_[static_cast<unsigned>(ordinal)].ready.load(std::memory_order_acquire);
  const NvidiaExport::Piece piece = exporter != nullptr ? exporter->find(pointer) : NvidiaExport::Piece{};
  if (piece.device_address == nullptr) return;
  facts.base = reinterpret_cast<std::uintptr_t>(piece.device_address);
  facts.size = piece.size;
  facts.mapped = reinterpret_cast<std::uintptr_t>(piece.mapped);
}

// Mapped and stream-ordered memory has no context: any of its GPU reaches it. Managed memory may have no GPU either:
// any GPU reaches it.
CudaDevice* CudaDeviceSet::device_of(CUcontext handle, int ordinal) {
  CudaDevice::Context context{handle, 0};
  const bool has_context = handle != nullptr && api_.identify(handle, &context.id) == CUDA_SUCCESS;
  if (has_context) {
    if (CudaDevice* known = find(context)) return known;
  }
  const unsigned home_ordinal = ordinal < 0 ? 0 : static_cast<unsigned>(ordinal);
  const Result<CudaDevice*> result = primary(home_ordinal);
  CudaDevice* const home = result.ok() ? result.value() : nullptr;
  if (!has_context || (home != nullptr && home->context() == context)) return home;

  const MutexLock lock(adding_);
  if (CudaDevice* known = find(context)) return known;
  CudaDevice* const added = add_locked(home_ordinal, context, false);
  return added != nullptr ? added : home;
}

Result<CudaDevice*> CudaDeviceSet::primary(unsigned ordinal) {
  constexpr const char* kStep = "use the GPU's primary context";
  if (ordinal >= count_) return failure(Code::no_device, "find the GPU");
  if (CudaDevice* known = find_primary(ordinal)) return known;

  const MutexLock lock(adding_);
  if (CudaDevice* known = find_primary(ordinal)) return known;
  const OutsideCapture outside(api_);
  CUdevice device = 0;
  CudaDevice::Context context;
  CUresult result = api_.cuDeviceGet(&device, static_cast<int>(ordinal));
  if (result == CUDA_SUCCESS) result = api_.cuDevicePrimaryCtxRetain(&context.handle, device);
  if (result != CUDA_SUCCESS) return cuda_status(result, kStep);
  if (api_.identify(context.handle, &context.id) != CUDA_SUCCESS) return failure(Code::device_lost, kStep);
  CudaDevice* const added = add_locked(ordinal, context, true);
  if (added == nullptr) return failure(Code::limit, kStep);
  return added;
}

CudaDevice* CudaDeviceSet::find(const CudaDevice::Context& context) const {
  for (const auto& slot : devices_) {
    CudaDevice* const device = slot.load(std::memory_order_acquire);
    if (device == nullptr || device->context() == context) return device;
  }
  return nullptr;
}

// A primary context that the user has reset is dead; the next one gets another slot.
CudaDevice* CudaDeviceSet::find_primary(unsigned ordinal) const {
  for (const auto& slot : devices_) {
    CudaDevice* const device = slot.load(std::memory_order_acquire);
    if (device == nullptr) return nullptr;
    const bool wanted = device->is_primary() && device->ordinal() == ordinal;
    if (wanted && device->alive()) return device;
  }
  return nullptr;
}

CudaDevice* CudaDeviceSet::add_locked(unsigned ordinal, const CudaDevice::Context& context, bool primary) {
  if (used_ == (primary ? kContextsMax : kContextsMax - kPrimarySlots)) return nullptr;
  auto* const device = new CudaDevice(*this, ordinal, context, primary);
  devices_[used_++].store(device, std::memory_order_release);
  return device;
}

}  // namespace penstock::core
