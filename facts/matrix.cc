// SPDX-License-Identifier: Apache-2.0

#include "facts/matrix.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace penstock::facts {
namespace {

// The ranges of device numbers that the PCI ID database has for the chips of a generation (GP, GV, TU, GA, AD, GH, GB).
constexpr const char* kGpuSource = "PCI ID database (vendor 10de); NVIDIA driver release notes, supported products";
constexpr const char* kOpenSource = "README of NVIDIA/open-gpu-kernel-modules: Turing or later; Blackwell needs them";
constexpr GpuGeneration kGenerations[] = {
    {"Pascal", 0x15f0, 0x15ff, {375, 0, 0}, false, false, kGpuSource},
    {"Pascal", 0x1b00, 0x1d7f, {375, 0, 0}, false, false, kGpuSource},
    {"Volta", 0x1d80, 0x1dff, {384, 0, 0}, false, false, kGpuSource},
    {"Turing", 0x1e00, 0x1fff, {410, 0, 0}, true, false, kOpenSource},
    {"Ampere", 0x2080, 0x20ff, {450, 0, 0}, true, false, kOpenSource},
    {"Turing", 0x2180, 0x21ff, {410, 0, 0}, true, false, kOpenSource},
    {"Ampere", 0x2200, 0x22ff, {455, 0, 0}, true, false, kOpenSource},
    {"Hopper", 0x2300, 0x23ff, {525, 0, 0}, true, false, kOpenSource},
    {"Ampere", 0x2400, 0x25ff, {455, 0, 0}, true, false, kOpenSource},
    {"Ada", 0x2600, 0x28ff, {525, 0, 0}, true, false, kOpenSource},
    {"Blackwell", 0x2900, 0x2fff, {570, 0, 0}, true, true, kOpenSource},
    {"Blackwell", 0x3180, 0x31ff, {580, 0, 0}, true, true, kOpenSource},
};

constexpr const char* kCudaSource = "CUDA toolkit release notes, table of toolkit driver versions";
constexpr CudaRelease kCudaReleases[] = {
    {11040, {470, 42, 1}, kCudaSource},  {11080, {520, 61, 5}, kCudaSource}, {12000, {525, 60, 13}, kCudaSource},
    {12010, {530, 30, 2}, kCudaSource},  {12020, {535, 54, 3}, kCudaSource}, {12030, {545, 23, 6}, kCudaSource},
    {12040, {550, 54, 14}, kCudaSource}, {12050, {555, 42, 2}, kCudaSource}, {12060, {560, 28, 3}, kCudaSource},
    {12080, {570, 26, 0}, kCudaSource},  {12090, {575, 51, 3}, kCudaSource}, {13000, {580, 65, 6}, kCudaSource},
};

// https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, table 1.
constexpr struct { int cuda, driver; } kCudaBranches[] = {{11, 450}, {12, 525}, {13, 580}};

// Further pairings, besides those of the GPU Operator's releases.
constexpr struct {
  const char* driver;
  const char* nvidia_fs;
  const char* source;
} kPairings[] = {{"595.45.04", "2.28.4", "GDS 1.17.1, of CUDA 13.2"}};

constexpr const char* kChangeLog = "ChangeLog of NVIDIA/gds-nvidia-fs";
constexpr NvidiaFsForKernel kForKernels[] = {
    {{6, 2}, {2, 18, 3}, kChangeLog},  {{6, 5}, {2, 19, 6}, kChangeLog},  {{6, 6}, {2, 19, 7}, kChangeLog},
    {{6, 11}, {2, 26, 6}, kChangeLog}, {{6, 17}, {2, 28, 2}, kChangeLog},
};

constexpr const char* kOfedSource = "GPUDirect Storage release notes, MLNX_OFED/DOCA and file system requirements";
constexpr OfedRelease kOfedReleases[] = {{"5.4-", true, kOfedSource},   {"5.5-", true, kOfedSource},
                                         {"5.6-", true, kOfedSource},   {"5.7-", true, kOfedSource},
                                         {"5.8-", true, kOfedSource},   {"5.9-", false, kOfedSource},
                                         {"23.04", false, kOfedSource}, {"23.07", false, kOfedSource},
                                         {"23.10", true, kOfedSource},  {"24.04", true, kOfedSource}};

constexpr std::string_view kSystems[] = {"Ubuntu 18.04",
                                         "Ubuntu 20.04",
                                         "Ubuntu 22.04",
                                         "Ubuntu 24.04",
                                         "Ubuntu 26.04",
                                         "Red Hat Enterprise Linux 8",
                                         "Red Hat Enterprise Linux 9",
                                         "Red Hat Enterprise Linux 10",
                                         "Red Hat Enterprise Linux CoreOS",
                                         "Rocky Linux 8",
                                         "Rocky Linux 9"};

}  // namespace

const GpuGeneration* generation_of(std::uint16_t device) {
  const auto* const found = std::find_if(std::begin(kGenerations), std::end(kGenerations),
                                         [&](const auto& one) { return device >= one.first && device <= one.last; });
  return found == std::end(kGenerations) ? nullptr : found;
}

const CudaRelease* cuda_of_driver(const Version& driver) {
  const CudaRelease* newest = nullptr;
  for (const CudaRelease& one : kCudaReleases) {
    if (one.driver <= driver) newest = &one;
  }
  return newest;
}

int least_cuda_of(const GpuGeneration& generation) {
  const CudaRelease* const newest = cuda_of_driver({generation.driver[0], 999, 999});
  return newest == nullptr ? kCudaOfGds : std::max(kCudaOfGds, newest->number);
}

std::optional<int> driver_branch_of_cuda(int major) {
  for (const auto& [cuda, driver] : kCudaBranches) {
    if (cuda == major) return driver;
  }
  return {};
}

std::optional<Pairing> oldest_pairing(const Version& driver) {
  std::optional<Pairing> best;
  const auto offer = [&](const char* of_driver, const char* nvidia_fs, const std::string& source) {
    const auto known = version_of(of_driver);
    const auto least = core::parse_nvidia_fs_version(nvidia_fs);
    if (!known || !least || (*known)[0] > driver[0]) return;
    const bool is_nearer = !best || (*known)[0] > best->driver[0];
    const bool is_older = best && (*known)[0] == best->driver[0] && core::is_before(*least, best->nvidia_fs);
    if (is_nearer || is_older) best = Pairing{*known, *least, source};
  };
  for (const OperatorVersion& one : operator_versions()) {
    offer(one.driver, one.gds, std::string("NVIDIA GPU Operator ") + one.release);
  }
  for (const auto& one : kPairings) offer(one.driver, one.nvidia_fs, one.source);
  return best;
}

const NvidiaFsForKernel* nvidia_fs_for_kernel(const core::KernelVersion& kernel) {
  const NvidiaFsForKernel* newest = nullptr;
  for (const NvidiaFsForKernel& one : kForKernels) {
    if (one.kernel <= kernel) newest = &one;
  }
  return newest;
}

const OfedRelease* ofed_release(std::string_view version) {
  const auto* const found = std::find_if(std::begin(kOfedReleases), std::end(kOfedReleases),
                                         [&](const OfedRelease& one) { return version.starts_with(one.prefix); });
  return found == std::end(kOfedReleases) ? nullptr : found;
}

const char* system_source(std::string_view pretty_name) {
  const bool is_named = std::any_of(std::begin(kSystems), std::end(kSystems), [&](std::string_view system) {
    if (!pretty_name.starts_with(system)) return false;
    const std::string_view rest = pretty_name.substr(system.size());
    return rest.empty() || rest[0] < '0' || rest[0] > '9';
  });
  return is_named ? kOfedSource : nullptr;
}

}  // namespace penstock::facts
