// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "tools/validate/judgement.h"
#include "tools/validate/matrix.h"
#include "tools/validate/world.h"
#include "topology/nvidia_fs_storage.h"
#include "topology/text.h"

namespace penstock::tools::validate {
namespace {

using core::Tristate;

constexpr const char* kOpenModules = "Install the driver's open kernel modules (nvidia-open), and restart.";

Judgement judge(Rows& rows, const char* code, std::string subject = "") {
  return {rows, Layer::drivers, code, std::move(subject)};
}

std::string full_text(const Version& version) { return fmt::format("{}.{}.{}", version[0], version[1], version[2]); }
std::string text_of(const core::KernelVersion& kernel) { return fmt::format("{}.{}", kernel.major, kernel.minor); }

const Need* need_named(const World& world, int path, std::string_view code) {
  for (const PathReport& report : world.paths) {
    if (report.path != path) continue;
    for (const Need& need : report.needs) {
      if (need.code == code) return &need;
    }
  }
  return nullptr;
}

std::optional<Version> driver_of(const World& world) {
  const core::NvidiaDriver& driver = world.machine.nvidia;
  return driver.is_loaded ? version_of(driver.version_text) : std::nullopt;
}

// The module tells three numbers, /proc two.
struct NvidiaFsVersion {
  std::string text;
  Version number{};
  bool has_patch = false;
};
std::optional<NvidiaFsVersion> nvidia_fs_of(const World& world) {
  if (!world.machine.nvidia_fs.is_loaded) return std::nullopt;
  const core::KernelModule* const module = world.evidence.module("nvidia_fs");
  const bool has_module = module != nullptr && !module->version.empty();
  NvidiaFsVersion found{has_module ? module->version : world.machine.nvidia_fs.version};
  const auto number = version_of(found.text);
  if (!number) return std::nullopt;
  found.number = *number;
  found.has_patch = std::count(found.text.begin(), found.text.end(), '.') >= 2;
  return found;
}

// ---- Hardware and NVIDIA's driver

void judge_gpus(const World& world, Rows& rows) {
  std::map<std::uint16_t, unsigned> counts;
  for (const core::PciDevice* gpu : world.machine.nvidia_gpus()) ++counts[gpu->device];
  const Need* const need = need_named(world, PENSTOCK_PATH_PAGECACHE, "gpu");
  if (counts.empty()) {
    Judgement row = judge(rows, "gpu");
    if (need == nullptr) return row.unknown("nothing tells whether there is a GPU");
    if (need->met == Tristate::yes) return row.pass(need->text + ", which CUDA knows and the PCI bus does not show");
    return row.fail(need->text, need->remedy);
  }
  const auto driver = driver_of(world);
  for (const auto& [device, count] : counts) {
    const GpuGeneration* const generation = generation_of(device);
    Judgement row = judge(rows, "gpu", fmt::format("10de:{:04x}", device));
    const std::string which = fmt::format("{} GPU{}", count, count == 1 ? "" : "s");
    if (generation == nullptr) {
      row.unknown(which + " of a generation that this version of Penstock does not know");
      continue;
    }
    row.by(generation->source);
    const std::string named = fmt::format("{}, {}", which, generation->name);
    if (driver && *driver < generation->driver) {
      row.fail(fmt::format("{}: driver {} is older than {}, the first branch for them", named,
                           world.machine.nvidia.version_text, generation->driver[0]),
               fmt::format("Install NVIDIA's driver {} or later.", generation->driver[0]));
    } else if (driver && generation->needs_open_modules && !world.machine.nvidia.is_open) {
      row.fail(named + ": the proprietary kernel modules cannot drive them", kOpenModules);
    } else {
      row.pass(named);
    }
  }
}

void judge_driver(const World& world, Rows& rows) {
  Judgement row = judge(rows, "nvidia_driver");
  if (!world.has_gpu()) return row.not_applicable("there is no NVIDIA GPU to drive");
  const Need* const need = need_named(world, PENSTOCK_PATH_PAGECACHE, "gpu_driver");
  if (need == nullptr || need->met == Tristate::unknown) return row.unknown("nothing tells of NVIDIA's driver");
  if (need->met == Tristate::no) return row.fail(need->text, need->remedy);
  row.pass(need->text);
}

// Open kernel modules: nvidia-fs from 2.17.5 on, dma-buf and P2PDMA are theirs alone.
void judge_modules(const World& world, Rows& rows) {
  Judgement row = judge(rows, "kernel_modules");
  row.by("ChangeLog of NVIDIA/gds-nvidia-fs, 2.17.5; README of NVIDIA/open-gpu-kernel-modules");
  const core::NvidiaDriver& driver = world.machine.nvidia;
  if (!world.has_gpu() || !driver.is_loaded) return row.not_applicable("NVIDIA's driver is not loaded");
  if (driver.is_open) return row.pass("NVIDIA's open kernel modules");
  const auto nvidia_fs = nvidia_fs_of(world);
  if (nvidia_fs && nvidia_fs->number < kOpenModulesGds) {
    return row.pass(fmt::format("the proprietary kernel modules, which nvidia-fs {} goes with", nvidia_fs->text));
  }
  bool has_choice = true;
  for (const core::PciDevice* gpu : world.machine.nvidia_gpus()) {
    const GpuGeneration* const generation = generation_of(gpu->device);
    has_choice = has_choice && (generation == nullptr || generation->has_open_modules);
  }
  row.fail(
      "the proprietary kernel modules: nvidia-fs from 2.17.5 on, P2PDMA and registration by dma-buf need the open ones",
      has_choice ? kOpenModules : "These GPUs have no open kernel modules; nvidia-fs before 2.17.5 goes with them.");
}

void judge_cuda(const World& world, Rows& rows) {
  Judgement row = judge(rows, "cuda");
  const auto driver = driver_of(world);
  if (!world.has_gpu() || !driver) return row.not_applicable("NVIDIA's driver is not loaded");
  const CudaRelease* const known = cuda_of_driver(*driver);
  const int number = world.cuda > 0 ? world.cuda : known == nullptr ? 0 : known->number;
  row.by(kCudaOfGdsSource);
  if (number == 0 || number < kCudaOfGds) {
    return row.fail(fmt::format("driver {} runs no CUDA with GPUDirect Storage, which begins with 11.4",
                                world.machine.nvidia.version_text),
                    "Install NVIDIA's driver 470.42 or later.");
  }
  const std::string cuda = fmt::format("CUDA {}.{}", number / 1000, number % 1000 / 10);
  if (world.cuda > 0) return row.pass(cuda + ", as the driver says");
  row.by(known->source);
  row.pass(fmt::format("{} or later, by the version of the driver", cuda));
}

// ---- System

void judge_system(const World& world, Rows& rows) {
  Judgement row = judge(rows, "system");
  const std::string& name = world.machine.platform.distribution;
  if (name.empty()) return row.unknown("nothing tells which distribution this is");
  if (const char* const source = system_source(name)) {
    row.by(source);
    return row.pass(name + ", which NVIDIA names for GPUDirect Storage");
  }
  row.by(kNvidiaFsKernelSource);
  row.unknown(name + " is not among those that NVIDIA names for nvidia-fs; P2PDMA asks for a kernel alone");
}

// What the environment and cuFile's configuration ask of the library.
void judge_settings(const World& world, Rows& rows) {
  Judgement row = judge(rows, "settings");
  const Machine& machine = world.machine;
  if (machine.probe && !machine.probe->environment_error.empty()) {
    return row.fail("no session opens with these settings: " + machine.probe->environment_error,
                    "Correct what it names; 'penstock settings' lists them all.");
  }
  if (machine.cufile.must_refuse) {
    const auto& notes = machine.cufile.notes;
    const auto error =
        std::find_if(notes.begin(), notes.end(), [](auto& note) { return note.severity == core::Severity::error; });
    return row.fail("cuFile's driver does not open with its configuration: " +
                        (error == notes.end() ? machine.cufile.file : core::describe(*error)),
                    "Correct that in " + machine.cufile.file + "; 'penstock check' shows all that is wrong there.");
  }
  if (machine.probe) return row.pass("the environment's and cuFile's make sense");
  if (machine.cufile.file.empty()) return row.not_applicable("there is no cufile.json");
  row.pass(machine.cufile.file + " makes sense");
}

void judge_kernel(const World& world, Rows& rows) {
  Judgement row = judge(rows, "kernel");
  const core::Platform& platform = world.machine.platform;
  if (platform.kernel.major == 0) return row.unknown("nothing tells the kernel's version");
  row.by(kNvidiaFsKernelSource);
  if (platform.kernel < kNvidiaFsKernel) {
    return row.fail(fmt::format("Linux {}: nvidia-fs begins with 4.15", platform.kernel_release),
                    "Boot Linux 4.15 or later, 6.2 or later for P2PDMA.");
  }
  row.pass(fmt::format("Linux {}, new enough for nvidia-fs (4.15); what P2PDMA needs is in the row kernel_p2pdma",
                       platform.kernel_release));
}

void judge_kernel_p2pdma(const World& world, Rows& rows) {
  Judgement row = judge(rows, "kernel_p2pdma");
  row.by("Linux, drivers/pci/Kconfig and Documentation/driver-api/pci/p2pdma.rst");
  if (world.machine.peers().empty()) return row.not_applicable("no device here offers its memory to a drive");
  const core::Findings findings = core::kernel_findings(world.machine);
  if (const core::Finding* const stop = core::first_stop(findings)) {
    if (world.machine.nvidia_fs.is_loaded) {
      return row.not_applicable(stop->sentence() + "; nvidia-fs, which is loaded, does not need P2PDMA");
    }
    return row.fail(stop->sentence(), stop->remedy());
  }
  if (!findings.empty()) return row.unknown(findings.front().sentence(), findings.front().remedy());
  row.pass("the kernel was built with CONFIG_PCI_P2PDMA, and its version is right for that");
}

void judge_iommu(const World& world, Rows& rows) {
  Judgement row = judge(rows, "iommu");
  row.by("NVIDIA GPUDirect Storage best practices guide, IOMMU");
  if (world.machine.peers().empty()) return row.not_applicable("no device here offers its memory to a drive");
  switch (world.machine.iommu.mode) {
    case core::IommuMode::off: return row.pass("no IOMMU is in use");
    case core::IommuMode::passthrough: return row.pass("the IOMMU passes addresses through");
    case core::IommuMode::translating:
      return row.fail("the IOMMU gives devices addresses of their own, and bytes between them may go wrong",
                      "Boot with iommu=pt, or with it off in the firmware.");
    case core::IommuMode::unknown: break;
  }
  row.unknown("nothing tells how the IOMMU is set", "Look at /sys/kernel/iommu_groups/*/type as root.");
}

// The drivers of NVIDIA's NICs: the kernel's own have no version, those of OFED and DOCA have theirs.
void judge_ofed(const World& world, Rows& rows) {
  Judgement row = judge(rows, "ofed");
  const core::KernelModule* const module = world.evidence.module("mlx5_core");
  const bool is_at_work = std::any_of(world.rdma.begin(), world.rdma.end(),
                                      [](const core::RdmaDevice& one) { return one.name.starts_with("mlx5"); });
  if (module == nullptr && is_at_work) return row.not_applicable("nothing tells which release of mlx5_core this is");
  if (module == nullptr) return row.not_applicable("no driver of NVIDIA's NICs (mlx5_core) is loaded");
  const std::string& version = module->version;
  if (version.empty() || world.machine.platform.kernel_release.starts_with(version)) {
    return row.not_applicable("mlx5_core is the kernel's own, not of MLNX_OFED or DOCA");
  }
  const OfedRelease* const known = ofed_release(version);
  if (known == nullptr) {
    row.by(kNvidiaFsKernelSource);
    return row.unknown(fmt::format("NVIDIA's drivers {} are not among those that it names", version));
  }
  row.by(known->source);
  const bool has_nvme_of =
      std::any_of(world.controllers.begin(), world.controllers.end(), [](const auto& one) { return one.is_remote(); });
  if (!known->has_nvme_of && has_nvme_of) {
    return row.fail(fmt::format("NVMe over Fabrics does not work with MLNX_OFED {}, and is in use here", version),
                    "Install MLNX_OFED 23.10 or later.");
  }
  row.pass("MLNX_OFED or DOCA " + version);
}

// What slows bouncing down, as `penstock check` has it.
void judge_bouncing(const World& world, const char* code, Rows& rows) {
  Judgement row = judge(rows, code);
  const Need* const need = need_named(world, PENSTOCK_PATH_BOUNCE, code);
  if (!world.has_gpu() || need == nullptr) return row.not_applicable("there is no NVIDIA GPU to move bytes for");
  if (need->met == Tristate::yes) return row.pass(need->text);
  if (need->met == Tristate::unknown) return row.unknown(need->text, need->remedy);
  row.fail(need->text, need->remedy);
}

// ---- nvidia-fs

void judge_nvidia_fs(const World& world, Rows& rows) {
  Judgement row = judge(rows, "nvidia_fs");
  if (!world.machine.nvidia_fs.is_loaded) return row.not_applicable("nvidia-fs is not loaded");
  const auto found = nvidia_fs_of(world);
  if (!found) return row.unknown("nvidia-fs is loaded, and tells no version");
  if (const NvidiaFsFault* const fault = fault_of_nvidia_fs(found->number, found->has_patch)) {
    row.by(fault->source);
    // A version that goes with the driver may be without the fault.
    const auto driver = driver_of(world);
    const auto pairing = driver ? oldest_pairing(*driver) : std::nullopt;
    if (pairing && pairing->nvidia_fs >= fault->fixed) row.may_follow("nvidia_fs_driver");
    return row.fail(fmt::format("nvidia-fs {} has a fault: {}", found->text, fault->what),
                    fmt::format("Install nvidia-fs {} or later.", full_text(fault->fixed)));
  }
  row.pass("nvidia-fs " + found->text);
}

void judge_nvidia_fs_driver(const World& world, Rows& rows) {
  const auto found = nvidia_fs_of(world);
  const auto driver = driver_of(world);
  if (!found || !driver) return;
  Judgement row = judge(rows, "nvidia_fs_driver");
  const auto pairing = oldest_pairing(*driver);
  const std::string& driver_text = world.machine.nvidia.version_text;
  if (!pairing) return row.unknown(fmt::format("no release is known that pairs nvidia-fs with driver {}", driver_text));
  row.by(pairing->source);
  const std::string least = full_text(pairing->nvidia_fs);
  if (is_before(found->number, pairing->nvidia_fs, found->has_patch)) {
    return row.fail(fmt::format("nvidia-fs {} is too old for driver {}: NVIDIA has released none before {} with it",
                                found->text, driver_text, least),
                    fmt::format("Install nvidia-fs {} or later (package nvidia-fs-dkms or nvidia-gds).", least));
  }
  row.pass(fmt::format("nvidia-fs {} goes with driver {}", found->text, driver_text));
}

void judge_nvidia_fs_kernel(const World& world, Rows& rows) {
  const auto found = nvidia_fs_of(world);
  const NvidiaFsForKernel* const first = nvidia_fs_for_kernel(world.machine.platform.kernel);
  if (!found || first == nullptr) return;
  Judgement row = judge(rows, "nvidia_fs_kernel");
  row.by(first->source);
  if (!is_before(found->number, first->nvidia_fs, found->has_patch)) {
    return row.pass(fmt::format("nvidia-fs {} was made for Linux {}", found->text, text_of(first->kernel)));
  }
  row.unknown(fmt::format("nvidia-fs {} is older than {}, the first made for Linux {}; somebody patched it, or it",
                          found->text, full_text(first->nvidia_fs), text_of(first->kernel)) +
                  " would not be loaded",
              fmt::format("Install nvidia-fs {} or later.", full_text(first->nvidia_fs)));
}

// "scsi_mod" has hooks of another name.
std::string hook_of(std::string_view driver) { return driver == "scsi_mod" ? "scsi" : std::string(driver); }

void judge_hooks_of(const World& world, const std::string& driver, Rows& rows) {
  Judgement row = judge(rows, "nvidia_fs_hooks", driver);
  row.by("NVIDIA/gds-nvidia-fs, nvfs-mod.c: the functions that it looks for");
  const std::vector<std::string>& registered = world.machine.nvidia_fs.storage_drivers;
  if (std::find(registered.begin(), registered.end(), driver) != registered.end()) {
    return row.pass(fmt::format("{} is registered with nvidia-fs", driver));
  }
  if (world.evidence.has_hook(hook_of(driver))) {
    return row.pass(fmt::format("{} has nvidia-fs's hooks, and registers when nvidia-fs is opened", driver));
  }
  const std::string remedy = "Use a storage driver made for it, from MLNX_OFED or Ubuntu's nvidia kernel.";
  if (world.evidence.has_symbols != Tristate::yes) {
    return row.unknown(fmt::format("the kernel does not show whether {} has nvidia-fs's hooks", driver),
                       "Look as root: grep register_nvfs /proc/kallsyms.");
  }
  row.fail_unless(
      world.may_use(PENSTOCK_PATH_P2PDMA), "p2pdma",
      fmt::format("nvidia-fs is loaded, and the driver {} has none of its hooks: no byte goes directly", driver),
      remedy);
}

// What the system itself is on need not serve GPUs.
bool is_of_the_system(const std::string& mount_point) {
  return mount_point == "/" || mount_point == "/boot" || mount_point.starts_with("/boot/");
}

void judge_hooks(const World& world, Rows& rows) {
  if (!world.machine.nvidia_fs.is_loaded) return;
  std::map<std::string, bool> has_data;  // By driver.
  for (const core::FileSystem& one : world.machine.file_systems) {
    const std::string driver(core::nvidia_fs_driver(one));
    if (driver != "nvme" && driver != "nvme_rdma" && driver != "rpcrdma") continue;
    has_data[driver] = has_data[driver] || !is_of_the_system(one.mount.mount_point);
  }
  for (const auto& [driver, is_for_data] : has_data) {
    if (is_for_data) {
      judge_hooks_of(world, driver, rows);
    } else {
      judge(rows, "nvidia_fs_hooks", driver).not_applicable("nothing but the system itself is on its drives");
    }
  }
}

}  // namespace

bool World::has_gpu() const {
  return machine.probe && machine.probe->cuda_devices() > 0 ? true : !machine.nvidia_gpus().empty();
}

void judge_drivers(const World& world, Rows& rows) {
  judge_gpus(world, rows);
  judge_driver(world, rows);
  judge_modules(world, rows);
  judge_cuda(world, rows);
  judge_settings(world, rows);
  judge_system(world, rows);
  judge_kernel(world, rows);
  judge_kernel_p2pdma(world, rows);
  judge_iommu(world, rows);
  judge_bouncing(world, "io_uring", rows);
  judge_bouncing(world, "locked_memory", rows);
  judge_ofed(world, rows);
  judge_nvidia_fs(world, rows);
  judge_nvidia_fs_driver(world, rows);
  judge_nvidia_fs_kernel(world, rows);
  judge_hooks(world, rows);
  judge_cufile(world, rows);
  judge_paths(world, rows);
}

}  // namespace penstock::tools::validate
