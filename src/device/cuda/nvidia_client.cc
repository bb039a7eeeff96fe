// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/nvidia_client.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace penstock::core {

using namespace nvidia;

namespace {

constexpr const char* kControlNode = "/dev/nvidiactl";
constexpr const char* kUvmNode = "/dev/nvidia-uvm";

constexpr int kNewestDriver = 595;  // The newest branch whose interface was read.

// The library's own names for imported objects; the names that RM chooses begin at 0xcaf00000.
constexpr Handle kFirstHandle = 0x50000000;

std::uint64_t as_number(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

}  // namespace

NvidiaClient::~NvidiaClient() {
  if (uvm_fd_ >= 0) kernel_.close(uvm_fd_);
  if (rm_fd_ >= 0) kernel_.close(rm_fd_);
}

Result<int> NvidiaClient::open_node(const char* name, const char* path) const {
  const int fd = kernel_.open(path);
  const Status status = done(name, {fd < 0 ? os_failure(-fd, name) : success()});
  if (!status.ok()) return status;
  return fd;
}

template <typename Parameters>
Status NvidiaClient::rm(const char* name, unsigned number, Parameters& parameters) const {
  const int result = kernel_.control(rm_fd_, rm_request<Parameters>(number), &parameters);
  if (result < 0) return done(name, {os_failure(-result, name)});
  return done(name, NvidiaStep::of(parameters.status, name));
}

template <typename Parameters>
Status NvidiaClient::rm_control(const char* name, std::uint32_t command, Parameters& parameters) const {
  RmControl control = {client_, client_, command, 0, as_number(&parameters), sizeof parameters, NV_OK};
  return rm(name, NV_ESC_RM_CONTROL, control);
}

template <typename Parameters>
Status NvidiaClient::uvm(const char* name, unsigned long request, Parameters& parameters) const {
  alignas(8) std::byte block[kUvmBlockBytes] = {};
  parameters.status = kUnanswered;
  std::memcpy(block, &parameters, sizeof parameters);
  const int result = kernel_.control(uvm_fd_, request, block);
  std::memcpy(&parameters, block, sizeof parameters);
  if (result < 0) return done(name, {os_failure(-result, name)});
  return done(name, NvidiaStep::of(parameters.status, name));
}

// ---- Steps that need no memory. ----

Status NvidiaClient::start(const std::array<std::uint8_t, 16>& uuid) {
  if (const Status status = check_version(); !status.ok()) return status;
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
  return register_gpu(uuid);
}

Status NvidiaClient::check_version() const {
  constexpr const char* kDriver = "speak the interface of this version of NVIDIA's driver";
  const bool is_known = versions_.driver >= kP2pdmaDriver && versions_.driver.major <= kNewestDriver;
  return done(kDriver, {is_known ? success() : failure(Code::unsupported, kDriver)});
}

Status NvidiaClient::register_gpu(const std::array<std::uint8_t, 16>& uuid) {
  UvmInitialize initialize = {.flags = UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE};
  const Status status = uvm("start NVIDIA's unified memory", UVM_INITIALIZE, initialize);
  if (!status.ok()) return status;

  UvmRegisterGpu gpu = {.rm_fd = rm_fd_, .client = client_};
  static_assert(sizeof gpu.uuid == sizeof uuid);
  std::memcpy(&gpu.uuid, uuid.data(), sizeof gpu.uuid);
  const Status registered = uvm("register the GPU with NVIDIA's unified memory", UVM_REGISTER_GPU, gpu);
  uuid_ = gpu.uuid;
  return registered;
}

// ---- One piece of memory. ----

Status NvidiaClient::map(int exported, std::size_t size, Mapping& made) {
  made.size = size;
  const Status imported = import_memory(exported, made);
  kernel_.close(exported);  // The import holds a reference of its own.
  return imported.ok() ? make_pages(made) : imported;
}

// No page may be reachable once the memory belongs to another owner.
void NvidiaClient::unmap(const Mapping& made) {
  if (made.mapped != nullptr) kernel_.unmap(made.mapped, made.size);
  if (made.pages != nullptr) free_pages(made);
  if (made.reserved != nullptr) kernel_.unmap(made.reserved, made.size);
  if (made.memory != 0) forget(made.memory);
}

Status NvidiaClient::import_memory(int exported, Mapping& made) {
  constexpr const char* kOneObject = "find one piece of GPU memory in the export";
  RmExportInfo info = {.fd = exported};
  const Status asked = rm_control("look at exported GPU memory", NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO, info);
  if (!asked.ok()) return asked;
  const bool is_whole_gpu = info.device_instance < kNoDevice && info.gpu_instance == kNoGpuInstance;
  if (!is_whole_gpu || info.objects_max == 0) return done(kOneObject, {failure(Code::unsupported, kOneObject)});
  if (const Status status = ensure_device(info.device_instance); !status.ok()) return status;

  RmImport import = {.fd = exported, .parent = device_};
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
Status NvidiaClient::ensure_device(std::uint32_t instance) {
  constexpr const char* kName = "use the GPU as a client of the NVIDIA driver";
  if (device_ != 0) return instance == device_instance_ ? success() : done(kName, {failure(Code::no_device, kName)});
  RmDevice device = {.instance = instance, .client_share = client_};
  RmAlloc alloc = {client_, client_, 0, NV01_DEVICE_0, as_number(&device), sizeof device, NV_OK};
  const Status status = rm(kName, NV_ESC_RM_ALLOC, alloc);
  if (!status.ok()) return status;
  device_ = alloc.object;
  device_instance_ = instance;
  return success();
}

// Since Linux 6.15 a free peer page has no reference. Older drivers take them for used ones, refuse,
// and never give back the memory (kernel-open/nvidia-uvm/uvm_va_range_device_p2p.c). So they get a request without
// pages, whose result shows whether the machine supports peer pages at all.
Status NvidiaClient::ask_for_pages(const Mapping& made) const {
  constexpr const char* kName = "make peer pages of GPU memory";
  constexpr const char* kKernel = "make peer pages with this version of NVIDIA's driver on this kernel";
  const NvidiaVersions& is = versions_;
  const bool would_keep_it = is.kernel >= kP2pdmaKernelOfNewPages && is.driver < kP2pdmaDriverOfNewPages;

  UvmAllocDeviceP2p pages = {.base = as_number(made.reserved), .length = made.size, .uuid = uuid_};
  pages.rm_fd = rm_fd_;
  pages.client = client_;
  pages.memory = would_keep_it ? 0 : made.memory;
  const Status answer = uvm(kName, UVM_ALLOC_DEVICE_P2P, pages);
  if (!would_keep_it || pages.status == NV_ERR_NOT_SUPPORTED) return answer;
  return done(kKernel, {failure(Code::unsupported, kKernel)});
}

Status NvidiaClient::make_pages(Mapping& made) {
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

void NvidiaClient::free_pages(const Mapping& made) const {
  constexpr const char* kName = "give back peer pages of GPU memory";
  alignas(8) std::byte block[kUvmBlockBytes] = {};
  UvmFree free = {.base = as_number(made.pages), .length = made.size, .status = kUnanswered, .padding = 0};
  std::memcpy(block, &free, sizeof free);
  const int result = kernel_.control(uvm_fd_, UVM_FREE, block);
  std::memcpy(&free, block, sizeof free);
  const RmStatus answer = free.status == kUnanswered ? free.status_from_590 : free.status;
  static_cast<void>(done(kName, result < 0 ? NvidiaStep{os_failure(-result, kName)} : NvidiaStep::of(answer, kName)));
}

void NvidiaClient::forget(Handle memory) const {
  RmFree free = {client_, device_, memory, NV_OK};
  static_cast<void>(rm("forget imported GPU memory", NV_ESC_RM_FREE, free));
}

}  // namespace penstock::core
