// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "base/gpu_product.h"
#include "facts/examination.h"
#include "facts/judgement.h"
#include "facts/matrix.h"
#include "facts/needs.h"

namespace penstock::facts {
namespace {

using core::Tristate;

constexpr const char* kOpenModules = "Install the driver's open kernel modules (nvidia-open), and restart.";

// ---- Hardware and NVIDIA's driver

void judge_gpus(const Machine& machine, Findings& rows) {
  std::map<std::uint16_t, unsigned> counts;
  for (const core::PciDevice* gpu : machine.nvidia_gpus()) ++counts[gpu->device];
  if (counts.empty()) {
    Judgement row(rows, "gpu");
    const Finding gpu = need_gpu(machine);
    if (gpu.state == State::pass) return row.pass(gpu.sentence + ", which CUDA knows and the PCI bus does not show");
    return row.fail(gpu.sentence, gpu.remedy);
  }
  const auto driver = driver_of(machine);
  for (const auto& [device, count] : counts) {
    const GpuGeneration* const generation = generation_of(device);
    Judgement row(rows, "gpu", fmt::format("10de:{:04x}", device));
    const std::string which = fmt::format("{} GPU{}", count, count == 1 ? "" : "s");
    if (generation == nullptr) {
      row.unknown(which + " of a generation that this version of Penstock does not know");
      continue;
    }
    row.by(generation->source);
    const std::string named = fmt::format("{}, {}", which, generation->name);
    if (driver && *driver < generation->driver) {
      row.fail(fmt::format("{}: driver {} is older than {}, the first branch that supports them", named,
                           machine.nvidia.version_text, generation->driver[0]),
               fmt::format("Install NVIDIA's driver {} or later.", generation->driver[0]));
    } else if (driver && generation->needs_open_modules && !machine.nvidia.is_open) {
      row.fail(named + ": the proprietary kernel modules cannot drive them", kOpenModules);
    } else {
      const int cuda = least_cuda_of(*generation);
      row.pass(fmt::format("{}, for driver {} and CUDA {}.{} or later", named, generation->driver[0], cuda / 1000,
                           cuda % 1000 / 10));
    }
  }
}

// nvidia-fs gets no pages of such a GPU from the driver. No document says whether the driver exports them in another
// way.
void judge_gpu_product(const Machine& machine, Findings& rows) {
  const auto& models = machine.nvidia.models;
  if (models.empty() || std::any_of(models.begin(), models.end(), core::is_pinned_for_modules)) return;
  Judgement row(rows, "gpu_product");
  row.by("NVIDIA GPUDirect RDMA, overview; issues NVIDIA/MagnumIO#5, NVIDIA/gds-nvidia-fs#14");
  row.closes(kByNvidiaFs);
  row.doubts(path_bit(PENSTOCK_PATH_P2PDMA) | path_bit(PENSTOCK_PATH_DMABUF));
  row.needs_other_hardware();
  row.fail(models.front() + ": NVIDIA supports GPUDirect on data centre and professional GPUs, and on no GeForce",
           "Use a data centre or professional GPU for direct paths; the others serve this one.");
}

void judge_driver(const Machine& machine, Findings& rows) {
  Judgement row(rows, "nvidia_driver");
  if (!machine.has_gpu()) return row.not_applicable("there is no NVIDIA GPU to drive");
  const Finding driver = need_driver(machine);
  if (driver.state == State::fail) return row.fail(driver.sentence, driver.remedy);
  row.pass(driver.sentence);
}

// Judges whether the driver's kernel modules are the open ones: nvidia-fs from 2.17.5 on, dma-buf and P2PDMA work with
// these alone.
void judge_modules(const Machine& machine, Findings& rows) {
  Judgement row(rows, "kernel_modules");
  row.by("ChangeLog of NVIDIA/gds-nvidia-fs, 2.17.5; README of NVIDIA/open-gpu-kernel-modules");
  // For memory of other makers' devices, NVIDIA's modules do not matter.
  const auto peers = machine.peers();
  const bool is_nvidia_alone = std::all_of(peers.begin(), peers.end(), [](auto* one) { return one->is_nvidia_gpu(); });
  row.closes(kByNvidiaFs | (is_nvidia_alone ? path_bit(PENSTOCK_PATH_P2PDMA) : 0));
  const core::NvidiaDriver& driver = machine.nvidia;
  if (!machine.has_gpu() || !driver.is_loaded) return row.not_applicable("NVIDIA's driver is not loaded");
  if (driver.is_open) return row.pass("NVIDIA's open kernel modules");
  const auto nvidia_fs = nvidia_fs_of(machine);
  if (nvidia_fs && version_of(core::text_of(*nvidia_fs)) < kOpenModulesGds) {
    return row.pass(
        fmt::format("the proprietary kernel modules, with which nvidia-fs {} works", core::text_of(*nvidia_fs)));
  }
  bool has_choice = true;
  for (const core::PciDevice* gpu : machine.nvidia_gpus()) {
    const GpuGeneration* const generation = generation_of(gpu->device);
    has_choice = has_choice && (generation == nullptr || generation->has_open_modules);
  }
  row.fail(
      "the proprietary kernel modules: nvidia-fs from 2.17.5 on, P2PDMA and registration by dma-buf need the open ones",
      has_choice ? kOpenModules : "Use nvidia-fs before 2.17.5: these GPUs have no open kernel modules.");
}

void judge_cuda(const Machine& machine, Findings& rows) {
  Judgement row(rows, "cuda");
  const auto driver = driver_of(machine);
  if (!machine.has_gpu() || !driver) return row.not_applicable("NVIDIA's driver is not loaded");
  const CudaRelease* const known = cuda_of_driver(*driver);
  const int told = machine.probe ? machine.probe->cuda : 0;
  const int number = told > 0 ? told : known == nullptr ? 0 : known->number;
  row.by(kCudaOfGdsSource);
  if (number == 0 || number < kCudaOfGds) {
    return row.fail(fmt::format("driver {} supports no CUDA with GPUDirect Storage, which begins with CUDA 11.4",
                                machine.nvidia.version_text),
                    "Install NVIDIA's driver 470.42 or later.");
  }
  const std::string cuda = fmt::format("CUDA {}.{}", number / 1000, number % 1000 / 10);
  if (told > 0) return row.pass(cuda + ", as the driver says");
  row.by(known->source);
  row.pass(fmt::format("{} or later, by the version of the driver", cuda));
}

// ---- System

void judge_system(const Machine& machine, Findings& rows) {
  Judgement row(rows, "system");
  const std::string& name = machine.platform.distribution;
  if (name.empty()) return row.unknown("the distribution is unknown");
  if (const char* const source = system_source(name)) {
    row.by(source);
    return row.pass(name + ", which NVIDIA names for GPUDirect Storage");
  }
  row.by(kNvidiaFsKernelSource);
  row.unknown(name + " is not among the systems that NVIDIA names for nvidia-fs; P2PDMA needs only the right kernel");
}

void judge_kernel(const Machine& machine, Findings& rows) {
  Judgement row(rows, "kernel");
  const core::Platform& platform = machine.platform;
  if (platform.kernel.major == 0) return row.unknown("the kernel's version is unknown");
  row.by(kNvidiaFsKernelSource);
  const std::string least = core::text_of(kNvidiaFsKernel);
  if (platform.kernel < kNvidiaFsKernel) {
    return row.fail(
        fmt::format("Linux {} is too old: nvidia-fs needs {} or later", platform.kernel_release, least),
        fmt::format("Boot Linux {} or later, {} or later for P2PDMA.", least, core::text_of(core::kP2pdmaKernel)));
  }
  row.pass(fmt::format("Linux {}, new enough for nvidia-fs ({}); what P2PDMA needs is in the row kernel_p2pdma",
                       platform.kernel_release, least));
}

void judge_kernel_p2pdma(const Machine& machine, Findings& rows) {
  Judgement row(rows, "kernel_p2pdma");
  row.by("Linux, drivers/pci/Kconfig and Documentation/driver-api/pci/p2pdma.rst");
  const core::Findings findings = core::kernel_findings(machine);
  if (const core::Finding* const stop = core::first_stop(findings)) {
    if (machine.nvidia_fs.is_loaded) {
      return row.not_applicable(stop->sentence() + "; nvidia-fs, which is loaded, does not need P2PDMA");
    }
    return row.fail(stop->sentence(), stop->remedy());
  }
  if (!findings.empty()) return row.unknown(findings.front().sentence(), findings.front().remedy());
  row.pass("the kernel was built with CONFIG_PCI_P2PDMA, and its version supports device pages");
}

void judge_iommu(const Machine& machine, Findings& rows) {
  Judgement row(rows, "iommu");
  row.by("NVIDIA GPUDirect Storage best practices guide, IOMMU");
  switch (machine.iommu.mode) {
    case core::IommuMode::off: return row.pass("no IOMMU is in use");
    case core::IommuMode::passthrough: return row.pass("the IOMMU passes addresses through");
    case core::IommuMode::translating:
      return row.fail("the IOMMU translates the addresses of devices, and bytes between them may be corrupted",
                      "Boot with iommu=pt, or switch the IOMMU off in the firmware.");
    case core::IommuMode::unknown: break;
  }
  row.unknown("the mode of the IOMMU is unknown", "Look at /sys/kernel/iommu_groups/*/type as root.");
}

// Judges the drivers of NVIDIA's NICs. The kernel's own drivers have no version, in contrast to OFED's and DOCA's.
void judge_ofed(const Machine& machine, Findings& rows) {
  Judgement row(rows, "ofed");
  const core::KernelModule* const module = machine.evidence.module("mlx5_core");
  const bool is_at_work = std::any_of(machine.rdma.begin(), machine.rdma.end(),
                                      [](const core::RdmaDevice& one) { return one.name.starts_with("mlx5"); });
  if (module == nullptr && is_at_work) return row.not_applicable("the release of mlx5_core is unknown");
  if (module == nullptr) return row.not_applicable("no driver of NVIDIA's NICs (mlx5_core) is loaded");
  const std::string& version = module->version;
  if (version.empty() || machine.platform.kernel_release.starts_with(version)) {
    return row.not_applicable("mlx5_core is the kernel's own, not of MLNX_OFED or DOCA");
  }
  const OfedRelease* const known = ofed_release(version);
  if (known == nullptr) {
    row.by(kNvidiaFsKernelSource);
    return row.unknown(fmt::format("MLNX_OFED or DOCA {} is not among the releases that NVIDIA names", version));
  }
  row.by(known->source);
  const bool has_nvme_of = std::any_of(machine.controllers.begin(), machine.controllers.end(),
                                       [](const auto& one) { return one.is_remote(); });
  if (!known->has_nvme_of && has_nvme_of) {
    return row.fail(fmt::format("NVMe over Fabrics does not work with MLNX_OFED {}, and is in use here", version),
                    "Install MLNX_OFED 23.10 or later.");
  }
  row.pass("MLNX_OFED or DOCA " + version);
}

}  // namespace

std::optional<Version> driver_of(const Machine& machine) {
  const core::NvidiaDriver& driver = machine.nvidia;
  return driver.is_loaded ? version_of(driver.version_text) : std::nullopt;
}

void judge_drivers(const Machine& machine, Findings& rows) {
  judge_gpus(machine, rows);
  judge_gpu_product(machine, rows);
  judge_driver(machine, rows);
  judge_modules(machine, rows);
  judge_cuda(machine, rows);
  rows.push_back(settings_finding(machine));
  judge_system(machine, rows);
  judge_kernel(machine, rows);
  judge_kernel_p2pdma(machine, rows);
  judge_iommu(machine, rows);
  rows.push_back(need_io_uring(machine));
  rows.push_back(need_locked_memory(machine));
  judge_ofed(machine, rows);
  judge_nvidia_fs(machine, rows);
}

Finding settings_finding(const Machine& machine) {
  const Process& process = machine.process;
  if (!process.error.empty()) {
    return need("settings", State::fail, "no session opens with these settings: " + process.error,
                "Correct the setting that it names; 'penstock settings' lists all.");
  }
  if (process.cufile.must_refuse) {
    const auto& notes = process.cufile.notes;
    const auto error =
        std::find_if(notes.begin(), notes.end(), [](auto& note) { return note.severity == core::Severity::error; });
    return need("settings", State::fail,
                "cuFile's driver does not open with its configuration: " +
                    (error == notes.end() ? process.cufile.file : core::describe(*error)),
                process.cufile.file.empty()
                    ? "Name a file that can be read, or unset CUFILE_ENV_PATH_JSON."
                    : "Correct that in " + process.cufile.file + "; 'penstock check' shows all that is wrong there.");
  }
  if (machine.probe) return need("settings", State::pass, "the settings of the environment and of cuFile are valid");
  if (process.cufile.file.empty()) return need("settings", State::not_applicable, "there is no cufile.json");
  return need("settings", State::pass, process.cufile.file + " makes sense");
}

}  // namespace penstock::facts
