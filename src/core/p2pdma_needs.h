// SPDX-License-Identifier: Apache-2.0

// The first versions with which programs can use P2PDMA with NVIDIA's GPUs: one table for the rooms that read machines
// (topology/), call the driver (device/cuda/) and judge clusters (k8s). It judges nothing itself. Pure.
#pragma once

#include <compare>
#include <string>

namespace penstock::core {

struct KernelVersion {
  int major = 0;  // 0 if unknown.
  int minor = 0;
  friend auto operator<=>(const KernelVersion&, const KernelVersion&) = default;
};

struct DriverVersion {
  int major = 0;  // 0 if unknown.
  int minor = 0;
  friend auto operator<=>(const DriverVersion&, const DriverVersion&) = default;
};

// "6.2", "565.57"
inline std::string text_of(const KernelVersion& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}
inline std::string text_of(const DriverVersion& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

constexpr KernelVersion kP2pdmaKernel{6, 2};
constexpr KernelVersion kP2pdmaKernelFaulty{6, 16};  // It fails transfers of device pages above 4 KiB.
constexpr DriverVersion kP2pdmaDriver{565, 57};
// From this kernel on, pages have another reference count than drivers before kP2pdmaDriverOfNewPages expect.
constexpr KernelVersion kP2pdmaKernelOfNewPages{6, 15};
constexpr DriverVersion kP2pdmaDriverOfNewPages{595, 44};

}  // namespace penstock::core
