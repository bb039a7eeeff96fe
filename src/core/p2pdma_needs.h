// SPDX-License-Identifier: Apache-2.0

// From which versions on programs have P2PDMA with NVIDIA's GPUs: one table for who reads machines (topology/), who
// speaks with the driver (device/cuda/), and who judges clusters (k8s). It judges nothing itself. Pure.
#pragma once

#include <compare>

namespace penstock::core {

struct KernelVersion {
  int major = 0;  // 0 where unknown.
  int minor = 0;
  friend auto operator<=>(const KernelVersion&, const KernelVersion&) = default;
};

struct DriverVersion {
  int major = 0;  // 0 where unknown.
  int minor = 0;
  friend auto operator<=>(const DriverVersion&, const DriverVersion&) = default;
};

constexpr KernelVersion kP2pdmaKernel{6, 2};
constexpr DriverVersion kP2pdmaDriver{565, 57};
// Since then the kernel hands pages out with another count than drivers before the latter expect.
constexpr KernelVersion kP2pdmaKernelOfNewPages{6, 15};
constexpr DriverVersion kP2pdmaDriverOfNewPages{595, 44};

}  // namespace penstock::core
