// SPDX-License-Identifier: Apache-2.0

// Versions and hardware that go together, as data, each row with its source. The GPU Operator's combinations are in
// facts/operator_versions.h, P2PDMA's needs in core/p2pdma_needs.h, and what is wrong with versions of nvidia-fs, which
// paths need, too, in topology/nvidia_fs_version.h; none is repeated here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "facts/operator_versions.h"
#include "topology/nvidia_fs_version.h"
#include "topology/platform.h"

namespace penstock::facts {

// A generation of GPUs, known by its range of PCI device numbers.
struct GpuGeneration {
  const char* name;
  std::uint16_t first, last;
  Version driver;           // The first driver branch that supports it.
  bool has_open_modules;    // The open kernel modules can drive it.
  bool needs_open_modules;  // Only the open kernel modules can drive it.
  const char* source;
};
const GpuGeneration* generation_of(std::uint16_t device);  // Null if not known.

// The newest CUDA that a driver can run.
struct CudaRelease {
  int number;  // From cuDriverGetVersion: 12080.
  Version driver;
  const char* source;
};
const CudaRelease* cuda_of_driver(const Version& driver);
int least_cuda_of(const GpuGeneration& generation);  // It is that of its first driver, or the first with GDS.
// The first driver branch that runs programs of every CUDA with this first number; nothing if not known.
std::optional<int> driver_branch_of_cuda(int major);
constexpr int kCudaOfGds = 11040;  // The first CUDA with GPUDirect Storage.
constexpr const char* kCudaOfGdsSource = "GPUDirect Storage release notes 1.0";

// The oldest nvidia-fs that NVIDIA released together with a driver of this branch, or else with the nearest branch
// before.
struct Pairing {
  Version driver;
  core::NvidiaFsVersion nvidia_fs;
  std::string source;
};
std::optional<Pairing> oldest_pairing(const Version& driver);

// The first nvidia-fs that was made for kernels of this version and later.
struct NvidiaFsForKernel {
  core::KernelVersion kernel;
  core::NvidiaFsVersion nvidia_fs;
  const char* source;
};
const NvidiaFsForKernel* nvidia_fs_for_kernel(const core::KernelVersion& kernel);
constexpr core::KernelVersion kNvidiaFsKernel{4, 15};
constexpr const char* kNvidiaFsKernelSource =
    "GPUDirect Storage release notes, MLNX_OFED/DOCA and file system requirements";

// Releases of NVIDIA's drivers for its NICs, by the beginning of their version: "5.8-".
struct OfedRelease {
  std::string_view prefix;
  bool has_nvme_of;
  const char* source;
};
const OfedRelease* ofed_release(std::string_view version);

// The document in which NVIDIA names a system, found by the system's name in /etc/os-release. Null if no document does.
const char* system_source(std::string_view pretty_name);

// The versions with which a NIC can register GPU memory by dma-buf.
constexpr core::KernelVersion kDmaBufKernel{5, 12};
constexpr Version kDmaBufDriver{515, 43, 4};
constexpr const char* kDmaBufSource = "NVIDIA GPU Operator guide, GPUDirect RDMA: prerequisites of DMA-BUF";

}  // namespace penstock::facts
