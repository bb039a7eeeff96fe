// SPDX-License-Identifier: Apache-2.0

// The part of the NVIDIA kernel driver's interface that nvidia_client.cc uses: numbers and structures of the resource
// manager (RM, /dev/nvidiactl) and of unified memory (UVM, /dev/nvidia-uvm). Nothing else may use it, and it does
// nothing: the code that makes a request says what it is for.
//
// Written down from the facts published as NVIDIA/open-gpu-kernel-modules (MIT licence); the file is named at each
// group, with the tags at which it was read. The interface is private to a driver version, and may change at any time.
//
// An RM request carries its size, and a size that the driver does not expect is refused. A UVM request does not: the
// driver reads and writes as many bytes as its own structure has, so requests are made in a block with room to spare.
#pragma once

#include <sys/ioctl.h>

#include <cstddef>
#include <cstdint>

namespace penstock::core::nvidia {

using Handle = std::uint32_t;    // A handle of an RM object; 0 is none, and in a create request lets RM choose one.
using RmStatus = std::uint32_t;  // 0 is success.

struct Uuid {
  std::uint8_t bytes[16];
};

// src/common/sdk/nvidia/inc/nvstatuscodes.h at 580.65.06.
inline constexpr RmStatus NV_OK = 0;
inline constexpr RmStatus NV_ERR_BUSY_RETRY = 0x03;
inline constexpr RmStatus NV_ERR_GPU_IS_LOST = 0x0f;
inline constexpr RmStatus NV_ERR_GPU_UUID_NOT_FOUND = 0x12;
inline constexpr RmStatus NV_ERR_ILLEGAL_ACTION = 0x16;
inline constexpr RmStatus NV_ERR_INSUFFICIENT_RESOURCES = 0x1a;
inline constexpr RmStatus NV_ERR_INSUFFICIENT_PERMISSIONS = 0x1b;
inline constexpr RmStatus NV_ERR_INVALID_ADDRESS = 0x1e;
inline constexpr RmStatus NV_ERR_INVALID_ARGUMENT = 0x1f;
inline constexpr RmStatus NV_ERR_INVALID_DEVICE = 0x26;
inline constexpr RmStatus NV_ERR_INVALID_OBJECT_HANDLE = 0x33;
inline constexpr RmStatus NV_ERR_INVALID_OBJECT_PARENT = 0x36;
inline constexpr RmStatus NV_ERR_INVALID_PARAM_STRUCT = 0x3a;
inline constexpr RmStatus NV_ERR_INVALID_PARAMETER = 0x3b;
inline constexpr RmStatus NV_ERR_INVALID_STATE = 0x40;
inline constexpr RmStatus NV_ERR_NO_MEMORY = 0x51;
inline constexpr RmStatus NV_ERR_NOT_SUPPORTED = 0x56;
inline constexpr RmStatus NV_ERR_OBJECT_NOT_FOUND = 0x57;
inline constexpr RmStatus NV_ERR_UVM_ADDRESS_IN_USE = 0x68;

// ---- RM. kernel-open/common/inc/nv-ioctl-numbers.h at 595.44.02; nv_escape.h and escape.c below
// src/nvidia/arch/nvalloc/unix at 515.43.04. ----

inline constexpr unsigned NV_ESC_RM_FREE = 0x29;
inline constexpr unsigned NV_ESC_RM_CONTROL = 0x2a;
inline constexpr unsigned NV_ESC_RM_ALLOC = 0x2b;

template <typename Parameters>
constexpr unsigned long rm_request(unsigned number) {
  return _IOC(_IOC_READ | _IOC_WRITE, 'F', number, sizeof(Parameters));
}

// src/common/sdk/nvidia/inc/nvos.h at 590.48.01: NVOS00, NVOS21 and NVOS54.
struct RmFree {
  Handle client;
  Handle parent;
  Handle object;
  RmStatus status;
};
static_assert(sizeof(RmFree) == 16);

struct RmAlloc {
  Handle client;  // 0 if the new object is itself a client.
  Handle parent;
  Handle object;             // In and out.
  std::uint32_t class_id;    // One of the class numbers below.
  std::uint64_t parameters;  // Address of the parameters; 0 if the class has none.
  std::uint32_t parameters_size;
  RmStatus status;
};
static_assert(sizeof(RmAlloc) == 32);

struct RmControl {
  Handle client;
  Handle object;
  std::uint32_t command;
  std::uint32_t flags;
  std::uint64_t parameters;
  std::uint32_t parameters_size;
  RmStatus status;
};
static_assert(sizeof(RmControl) == 32);

inline constexpr std::uint32_t NV01_ROOT_CLIENT = 0x41;  // nvos.h
inline constexpr std::uint32_t NV01_DEVICE_0 = 0x80;     // class/cl0080.h

// class/cl0080.h at 515.43.04: NV0080_ALLOC_PARAMETERS. Its address space is never used.
struct RmDevice {
  std::uint32_t instance;
  Handle client_share;
  Handle target_client;
  Handle target_device;
  std::uint32_t flags;
  std::uint32_t padding;
  std::uint64_t va_space_size;
  std::uint64_t va_start;
  std::uint64_t va_limit;
  std::uint32_t va_mode;
  std::uint32_t padding_at_end;
};
static_assert(sizeof(RmDevice) == 56 && offsetof(RmDevice, va_space_size) == 24);

// ctrl/ctrl0000/ctrl0000unix.h at 590.48.01. Describes an exported descriptor; 515.43.04 had no `gpu_instance` yet.
inline constexpr std::uint32_t NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO = 0x3d08;
struct RmExportInfo {
  std::int32_t fd;
  std::uint32_t device_instance;  // kNoDevice where the object belongs to no GPU.
  std::uint32_t gpu_instance;     // kNoGpuInstance without MIG.
  std::uint16_t objects_max;
  std::uint8_t metadata[64];
};
static_assert(sizeof(RmExportInfo) == 80 && offsetof(RmExportInfo, objects_max) == 12);
inline constexpr std::uint32_t kNoDevice = 32;  // NV_MAX_DEVICES
inline constexpr std::uint32_t kNoGpuInstance = UINT32_MAX;

// The same file. CUDA exports by the command that takes several objects (0x3d0b); the import of a single one (0x3d06)
// refuses descriptors with room for more, so this is the one that fits both.
inline constexpr std::uint32_t NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD = 0x3d0c;
inline constexpr std::size_t kImportObjectsMax = 128;
inline constexpr std::uint8_t kImportedNothing = 0;
inline constexpr std::uint8_t kImportedVideoMemory = 1;
struct RmImport {
  std::int32_t fd;
  Handle parent;
  Handle objects[kImportObjectsMax];  // The handles that the imported objects get.
  std::uint8_t types[kImportObjectsMax];
  std::uint16_t count;
  std::uint16_t first;
};
static_assert(sizeof(RmImport) == 652);

// ---- UVM. kernel-open/nvidia-uvm: uvm_ioctl.h at 565.57.01, 575.51.02 and 590.48.01, uvm_linux_ioctl.h and uvm_api.h
// at 515.43.04, uvm_va_range_device_p2p.c at 565.57.01 and 595.44.02, uvm.c and uvm_map_external.c at 575.51.02. ----

inline constexpr unsigned long UVM_INITIALIZE = 0x30000001;
inline constexpr unsigned long UVM_FREE = 34;
inline constexpr unsigned long UVM_REGISTER_GPU = 37;
inline constexpr unsigned long UVM_ALLOC_DEVICE_P2P = 78;  // From 565.57.01.

// More than the largest structure that the driver takes from its stack (UVM_MAX_IOCTL_PARAM_STACK_SIZE, 288).
inline constexpr std::size_t kUvmBlockBytes = 512;
// The place of the status holds this before a request: the driver would never answer it.
inline constexpr RmStatus kUnanswered = 0xdeadbeef;

// With it the address space belongs to no process's memory map: UVM_MM_INITIALIZE is not needed, and neither pageable
// memory nor CUDA's own address space of the same process are concerned.
inline constexpr std::uint64_t UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE = 2;
struct UvmInitialize {
  std::uint64_t flags;
  RmStatus status;
  std::uint32_t padding;
};
static_assert(sizeof(UvmInitialize) == 16);

struct UvmRegisterGpu {
  Uuid uuid;  // In and out.
  std::uint8_t numa_enabled;
  std::uint8_t padding[3];
  std::int32_t numa_node;
  std::int32_t rm_fd;
  Handle client;
  Handle smc_partition;  // 0 without MIG.
  RmStatus status;
};
static_assert(sizeof(UvmRegisterGpu) == 40);

struct UvmAllocDeviceP2p {
  std::uint64_t base;
  std::uint64_t length;
  std::uint64_t offset;
  Uuid uuid;
  std::int32_t rm_fd;
  Handle client;
  Handle memory;
  RmStatus status;
};
static_assert(sizeof(UvmAllocDeviceP2p) == 56);

// 575.51.02 reads a length here; 590.48.01 does not, and writes its status here.
struct UvmFree {
  std::uint64_t base;
  union {
    std::uint64_t length;
    RmStatus status_from_590;
  };
  RmStatus status;
  std::uint32_t padding;
};
static_assert(sizeof(UvmFree) == 24);

}  // namespace penstock::core::nvidia
