// SPDX-License-Identifier: Apache-2.0

// Versions that belong together: the GPU Operator's releases and their parts, the systems that GPUDirect Storage has
// images for, the container runtimes and io_uring. One table, for every command that judges one. Pure.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "topology/platform.h"

namespace penstock::facts {

struct OperatorVersion {
  const char* release;
  const char* driver;
  const char* gds;
  const char* gdrcopy;
  const char* toolkit;
  const char* device_plugin;  // "" if not known.
};

std::span<const OperatorVersion> operator_versions();  // The newest last.
// The release itself, else the latest known with its first two numbers; the newest for "". Null for none.
const OperatorVersion* operator_version(std::string_view release);

// "v2.29.4-ubuntu24.04" is 2, 29, 4. Nothing where it begins otherwise.
using Version = std::array<int, 3>;
std::optional<Version> version_of(std::string_view text);
std::string version_text(const Version& version);  // Its first two numbers: "565.57".

// From this version of nvidia-fs on it needs the driver's open kernel modules.
constexpr Version kOpenModulesGds = {2, 17, 5};
// Before this branch the driver's container takes "auto" for the proprietary modules.
constexpr Version kOpenModulesDriver = {560, 0, 0};
// For P2PDMA: the driver, the kernel, and the driver for the kernel.
constexpr Version kP2pdmaDriver = {core::kP2pdmaDriver.major, core::kP2pdmaDriver.minor, 0};
constexpr Version kP2pdmaKernel = {core::kP2pdmaKernel.major, core::kP2pdmaKernel.minor, 0};
constexpr Version kP2pdmaNewKernel = {core::kP2pdmaKernelOfNewPages.major, core::kP2pdmaKernelOfNewPages.minor, 0};
constexpr Version kP2pdmaNewDriver = {core::kP2pdmaDriverOfNewPages.major, core::kP2pdmaDriverOfNewPages.minor, 0};

// The GPUs that NVIDIA's GDS guide names for it.
inline constexpr std::array kP2pdmaGpus = {"A100", "A40", "L4", "L40S", "H100", "H200", "B100", "B200", "B300"};

// True if there is an nvidia-fs image for "ubuntu24.04", "rhcos4.18"; nothing for "".
std::optional<bool> has_gds_image(std::string_view os);
// True if a runtime's own seccomp profile lets io_uring by: "containerd-2.1", "cri-o"; nothing if not known.
std::optional<bool> allows_io_uring(std::string_view runtime);

}  // namespace penstock::facts
