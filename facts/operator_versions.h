// SPDX-License-Identifier: Apache-2.0

// Versions that belong together: the GPU Operator's releases and their parts, the systems that GPUDirect Storage has
// images for, the container runtimes and io_uring. Every command that judges one of these reads this table. Pure.
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
// Finds a release, or else the latest known one with the same first two numbers; "" finds the newest. Null if there is
// none.
const OperatorVersion* operator_version(std::string_view release);

// Reads a version: "v2.29.4-ubuntu24.04" is 2, 29, 4. Nothing if the text begins otherwise.
using Version = std::array<int, 3>;
std::optional<Version> version_of(std::string_view text);
std::string version_text(const Version& version);  // Its first two numbers: "565.57".

// The first nvidia-fs that needs the driver's open kernel modules.
constexpr Version kOpenModulesGds = {2, 17, 5};
// The driver's container takes "auto" for the proprietary modules before this branch.
constexpr Version kOpenModulesDriver = {560, 0, 0};
// The oldest driver and kernel for P2PDMA. Kernels from kP2pdmaNewKernel on need kP2pdmaNewDriver.
constexpr Version kP2pdmaDriver = {core::kP2pdmaDriver.major, core::kP2pdmaDriver.minor, 0};
constexpr Version kP2pdmaKernel = {core::kP2pdmaKernel.major, core::kP2pdmaKernel.minor, 0};
constexpr Version kP2pdmaNewKernel = {core::kP2pdmaKernelOfNewPages.major, core::kP2pdmaKernelOfNewPages.minor, 0};
constexpr Version kP2pdmaNewDriver = {core::kP2pdmaDriverOfNewPages.major, core::kP2pdmaDriverOfNewPages.minor, 0};

// The GPUs that NVIDIA's GDS guide names for P2PDMA.
inline constexpr std::array kP2pdmaGpus = {"A100", "A40", "L4", "L40S", "H100", "H200", "B100", "B200", "B300"};

// True if nvidia-fs has an image for a system ("ubuntu24.04", "rhcos4.18"); nothing for "".
std::optional<bool> has_gds_image(std::string_view os);
// True if a container runtime's own seccomp profile allows io_uring ("containerd-2.1", "cri-o"); nothing if not known.
std::optional<bool> allows_io_uring(std::string_view runtime);

}  // namespace penstock::facts
