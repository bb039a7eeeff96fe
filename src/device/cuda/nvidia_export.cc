// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/nvidia_export.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "device/cuda/cuda_allocation.h"
#include "device/cuda/cuda_streams.h"

namespace penstock::core {

using namespace cuda;
using namespace nvidia;

namespace {

constexpr const char* kControlNode = "/dev/nvidiactl";
constexpr const char* kUvmNode = "/dev/nvidia-uvm";

constexpr int kNewestDriver = 595;  // The newest branch whose interface was read.

// The library's own names for imported objects; the names that RM chooses begin at 0xcaf00000.
constexpr Handle kFirstHandle = 0x50000000;

std::uint64_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

Result<std::unique_ptr<NvidiaExport>> NvidiaExport::open(const Setup& setup) {
  std::unique_ptr<NvidiaExport> made(new NvidiaExport(setup));
  const Status status = made->start();
  if (!status.ok()) return status;
  return made;
}

// Closing the descriptors ends the RM client and the UVM address space with everything that is left in them.
NvidiaExport::~NvidiaExport() {
  if (!is_inherited() && !exports_.empty()) {
    finish_cuda_streams(api_, setup_.context);
    for (const auto& each : exports_) undo(each.second);
  }
  if (uvm_fd_ >= 0) kernel_.close(uvm_fd_);
  if (rm_fd_ >= 0) kernel_.close(rm_fd_);
}

// ---- How steps are told. ----

Status NvidiaExport::done(const char* name, const NvidiaStep& step) const {
  if (setup_.observer) setup_.observer(name, step);
  return step.status;
}

Result<int> NvidiaExport::open_node(const char* name, const char* path) const {
  const int fd = kernel_.open(path);
  const Status status = done(name, {fd < 0 ? os_failure(-fd, name) : success()});
  if (!status.ok()) return status;
  return fd;
}

template <typename Parameters>
Status NvidiaExport::rm(const char* name, unsigned number, Parameters& parameters) const {
  const int result = kernel_.control(rm_fd_, rm_request<Parameters>(number), &parameters);
  if (result < 0) return done(name, {os_failure(-result, name)});
  return done(name, NvidiaStep::of(parameters.status, name));
}

template <typename Parameters>
Status NvidiaExport::rm_control(const char* name, std::uint32_t command, Parameters& parameters) const {
  RmControl control = {client_, client_, command, 0, number(&parameters), sizeof parameters, NV_OK};
  return rm(name, NV_ESC_RM_CONTROL, control);
}

template <typename Parameters>
Status NvidiaExport::uvm(const char* name, unsigned long request, Parameters& parameters) const {
  alignas(8) std::byte block[kUvmBlockBytes] = {};
  parameters.status = kUnanswered;
  std::memcpy(block, &parameters, sizeof parameters);
  const int result = kernel_.control(uvm_fd_, request, block);
  std::memcpy(&parameters, block, sizeof parameters);
  if (result < 0) return done(name, {os_failure(-result, name)});
  return done(name, NvidiaStep::of(parameters.status, name));
}

// ---- Steps that need no memory. ----

Status NvidiaExport::start() {
  if (const Status status = check_versions(); !status.ok()) return status;
  const Result<int> rm_fd = open_node("open /dev/nvidiactl", kControlNode);
  if (!rm_fd.ok()) return rm_fd.status();
  rm_fd_ = rm_fd.value();

  RmAlloc client = {.class_id = NV01_ROOT_CLIENT};
  if (const Status status = rm("become a client of the NVIDIA driver", NV_ESC_RM_ALLOC, client); !status.ok()) {
    return status;
  }
  client_ = client.object;

  const Result<int> uvm_fd = open_node("open /dev/nvidia-uvm", kUvmNode);
  if (!uvm_fd.ok()) return uvm_fd.status();
  uvm_fd_ = uvm_fd.value();
  return register_gpu();
}

Status NvidiaExport::check_versions() {
  constexpr const char* kCalls = "find the CUDA driver's calls for exportable memory";
  constexpr const char* kDriver = "speak the interface of this version of NVIDIA's driver";
  const auto require = [this](bool is_met, const char* name) {
    return done(name, {is_met ? success() : failure(Code::unsupported, name)});
  };
  if (const Status status = require(api_.has_virtual_memory(), kCalls); !status.ok()) return status;

  const DriverVersion& driver = setup_.versions.driver;
  return require(driver >= kP2pdmaDriver && driver.major <= kNewestDriver, kDriver);
}

Status NvidiaExport::register_gpu() {
  UvmInitialize initialize = {.flags = UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE};
  const Status status = uvm("start NVIDIA's unified memory", UVM_INITIALIZE, initialize);
  if (!status.ok()) return status;

  UvmRegisterGpu gpu = {.rm_fd = rm_fd_, .client = client_};
  static_assert(sizeof gpu.uuid == sizeof setup_.uuid);
  std::memcpy(&gpu.uuid, setup_.uuid.data(), sizeof gpu.uuid);
  const Status registered = uvm("register the GPU with NVIDIA's unified memory", UVM_REGISTER_GPU, gpu);
  uuid_ = gpu.uuid;
  return registered;
}

// ---- One allocation. ----

Result<NvidiaExport::Piece> NvidiaExport::allocate(std::size_t size) {
  if (is_inherited()) return failure(Code::closed, "allocate GPU memory in a forked process");
  if (size == 0 || size > PTRDIFF_MAX / 2) return failure(Code::invalid_argument, "allocate GPU memory");
  const WriterLock lock(mutex_);
  if (!refused_.ok()) return refused_;
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
  const Status imported = import_memory(fd, made);
  kernel_.close(fd);  // The import holds a reference of its own.
  return imported.ok() ? make_pages(made) : imported;
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
  if (!refused_.ok()) return refused_;
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

// ---- Its way through the driver. ----

Status NvidiaExport::import_memory(int fd, Export& made) {
  constexpr const char* kOneObject = "find one piece of GPU memory in the export";
  RmExportInfo info = {.fd = fd};
  const Status asked = rm_control("look at exported GPU memory", NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO, info);
  if (!asked.ok()) return asked;
  const bool is_whole_gpu = info.device_instance < kNoDevice && info.gpu_instance == kNoGpuInstance;
  if (!is_whole_gpu || info.objects_max == 0) return done(kOneObject, {failure(Code::unsupported, kOneObject)});
  if (const Status status = ensure_device(info.device_instance); !status.ok()) return status;

  RmImport import = {.fd = fd, .parent = device_};
  import.count = std::min<std::uint16_t>(info.objects_max, kImportObjectsMax);
  for (unsigned i = 0; i < import.count; ++i) import.objects[i] = kFirstHandle + (++last_handle_ & 0x0fffffff);
  const Status imported =
      rm_control("import GPU memory into the NVIDIA driver", NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, import);
  if (!imported.ok()) return imported;

  unsigned objects = 0;
  for (unsigned i = 0; i < import.count; ++i) {
    if (import.types[i] == kImportedNothing) continue;
    ++objects;
    if (import.types[i] == kImportedVideoMemory && made.memory == 0) {
      made.memory = import.objects[i];
    } else {
      forget(import.objects[i]);
    }
  }
  if (objects == 1 && made.memory != 0) return success();
  return done(kOneObject, {failure(Code::unsupported, kOneObject)});
}

// Makes the RM device that an imported object needs as its parent; all exports of a CUDA device share one.
Status NvidiaExport::ensure_device(std::uint32_t instance) {
  constexpr const char* kName = "use the GPU as a client of the NVIDIA driver";
  if (device_ != 0) return instance == device_instance_ ? success() : done(kName, {failure(Code::no_device, kName)});
  RmDevice device = {.instance = instance, .client_share = client_};
  RmAlloc alloc = {client_, client_, 0, NV01_DEVICE_0, number(&device), sizeof device, NV_OK};
  const Status status = rm(kName, NV_ESC_RM_ALLOC, alloc);
  if (!status.ok()) return status;
  device_ = alloc.object;
  device_instance_ = instance;
  return success();
}

// Since Linux 6.15 a free peer page has no reference. Older drivers take them for used ones, refuse,
// and never give back the memory (kernel-open/nvidia-uvm/uvm_va_range_device_p2p.c). So they get a request without
// pages, whose result shows whether the machine supports peer pages at all.
Status NvidiaExport::ask_for_pages(const Export& made) {
  constexpr const char* kName = "make peer pages of GPU memory";
  constexpr const char* kKernel = "make peer pages with this version of NVIDIA's driver on this kernel";
  const NvidiaVersions& is = setup_.versions;
  const bool would_keep_it = is.kernel >= kP2pdmaKernelOfNewPages && is.driver < kP2pdmaDriverOfNewPages;

  UvmAllocDeviceP2p pages = {.base = number(made.reserved), .length = made.size, .uuid = uuid_};
  pages.rm_fd = rm_fd_;
  pages.client = client_;
  pages.memory = would_keep_it ? 0 : made.memory;
  const Status answer = uvm(kName, UVM_ALLOC_DEVICE_P2P, pages);
  if (!would_keep_it || pages.status == NV_ERR_NOT_SUPPORTED) return answer;
  return done(kKernel, {failure(Code::unsupported, kKernel)});
}

Status NvidiaExport::make_pages(Export& made) {
  constexpr const char* kReserve = "reserve addresses for peer pages";
  constexpr const char* kMap = "map peer pages of GPU memory";
  made.reserved = kernel_.reserve(made.size);
  const Status reserved = done(kReserve, {made.reserved == nullptr ? os_failure(ENOMEM, kReserve) : success()});
  if (!reserved.ok()) return reserved;

  refused_ = ask_for_pages(made);
  if (!refused_.ok()) return refused_;

  made.pages = made.reserved;
  const int result = kernel_.map_shared(made.reserved, made.size, uvm_fd_);
  made.reserved = nullptr;
  if (result == 0) made.mapped = made.pages;
  return done(kMap, {result < 0 ? os_failure(-result, kMap) : success()});
}

// Undoes the steps, the last one first: no page may be reachable once the memory belongs to another owner.
void NvidiaExport::undo(const Export& made) {
  if (made.mapped != nullptr) kernel_.unmap(made.mapped, made.size);
  if (made.pages != nullptr) free_pages(made);
  if (made.reserved != nullptr) kernel_.unmap(made.reserved, made.size);
  if (made.memory != 0) forget(made.memory);
  const ContextScope scope(api_, setup_.context);
  if (made.is_mapped_on_device) api_.cuMemUnmap(made.address, made.size);
  if (made.address != 0 && !made.is_foreign) api_.cuMemAddressFree(made.address, made.size);
  if (made.has_allocation) api_.cuMemRelease(made.allocation);
}

void NvidiaExport::free_pages(const Export& made) {
  constexpr const char* kName = "give back peer pages of GPU memory";
  alignas(8) std::byte block[kUvmBlockBytes] = {};
  UvmFree free = {.base = number(made.pages), .length = made.size, .status = kUnanswered, .padding = 0};
  std::memcpy(block, &free, sizeof free);
  const int result = kernel_.control(uvm_fd_, UVM_FREE, block);
  std::memcpy(&free, block, sizeof free);
  const RmStatus answer = free.status == kUnanswered ? free.status_from_590 : free.status;
  static_cast<void>(done(kName, result < 0 ? NvidiaStep{os_failure(-result, kName)} : NvidiaStep::of(answer, kName)));
}

void NvidiaExport::forget(Handle memory) {
  RmFree free = {client_, device_, memory, NV_OK};
  static_cast<void>(rm("forget imported GPU memory", NV_ESC_RM_FREE, free));
}

// Waits for streams without holding the lock, because the requests that they wait for look pieces up.
void NvidiaExport::release(const Piece& piece) {
  if (is_inherited()) return;
  finish_cuda_streams(api_, setup_.context);
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
