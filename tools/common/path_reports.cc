// SPDX-License-Identifier: Apache-2.0

#include "tools/common/path_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "core/paths.h"
#include "tools/common/peer_pairs.h"
#include "tools/common/served.h"
#include "tools/common/units.h"
#include "topology/nvidia_fs_storage.h"
#include "topology/nvidia_fs_version.h"

namespace penstock::tools {
namespace {

constexpr int kNvfsNoDriver = PENSTOCK_REASON_NVFS_MISSING + 4;
constexpr int kNvfsOff = PENSTOCK_REASON_NVFS_MISSING + 12;  // nvfs_off

using core::Tristate;

constexpr std::uint64_t kRingBytes = 256 << 20;  // The library's default.

int reason_of(core::Obstacle obstacle) { return PENSTOCK_REASON_OBSTACLE + static_cast<int>(obstacle); }

Need need_gpu(const Machine& machine) {
  // CUDA may know GPUs that the PCI bus does not show: in Windows Subsystem for Linux, in some sandboxes.
  const std::size_t of_cuda = machine.probe ? machine.probe->cuda_devices() : 0;
  const std::size_t count = of_cuda > 0 ? of_cuda : machine.nvidia_gpus().size();
  if (count > 0) return {"gpu", Tristate::yes, fmt::format("{} NVIDIA GPU{}", count, count == 1 ? "" : "s"), ""};
  const bool has_amd = std::any_of(machine.pci.begin(), machine.pci.end(), [](auto& one) { return one.is_amd_gpu(); });
  return {"gpu", Tristate::no, has_amd ? "an AMD GPU, no NVIDIA GPU" : "no NVIDIA GPU on the PCI bus",
          "Run on a machine with an NVIDIA GPU; GPUs of other makers are not supported yet."};
}

bool has_gpu_node(const Machine& machine) {
  const auto is_gpu_node = [](const std::string& name) {
    return name.size() > 6 && std::all_of(name.begin() + 6, name.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  return std::any_of(machine.nvidia.device_nodes.begin(), machine.nvidia.device_nodes.end(), is_gpu_node);
}

// The CUDA driver, as far as it can be told: on this machine by having opened it.
Need need_driver(const Machine& machine) {
  const core::NvidiaDriver& driver = machine.nvidia;
  const std::string version = driver.version_text.empty() ? "NVIDIA's driver" : "driver " + driver.version_text;
  if (machine.probe && machine.probe->cuda_devices() > 0) return {"gpu_driver", Tristate::yes, version, ""};
  if (!driver.is_loaded) {
    return {"gpu_driver", Tristate::no, "NVIDIA's kernel driver is not loaded",
            "Install NVIDIA's driver and load it: modprobe nvidia-uvm."};
  }
  if (!has_gpu_node(machine)) {
    return {"gpu_driver", Tristate::no, version + " is loaded, but there is no /dev/nvidia0 here",
            machine.platform.container.empty() ? "Create the device nodes: nvidia-modprobe -u -c 0."
                                               : "Give the container its GPU, e.g. docker run --gpus all."};
  }
  if (!machine.probe) return {"gpu_driver", Tristate::yes, version, ""};
  return {"gpu_driver", Tristate::no, version + " is loaded, but CUDA cannot be used: " + machine.probe->device_reason,
          "Make libcuda.so.1 of the same version visible to the process."};
}

Need need_of(const core::Finding& finding) {
  const Tristate met = finding.stops() ? Tristate::no : Tristate::unknown;
  return {finding.code(), met, finding.sentence(), finding.remedy()};
}

Need need_locked_memory(const Machine& machine) {
  const char* remedy = "Raise it where speed matters: ulimit -l 524288, or LimitMEMLOCK=512M of a service.";
  if (!machine.locked_memory) return {"locked_memory", Tristate::unknown, "the limit cannot be read", remedy};
  const std::string limit = bytes_text(machine.locked_memory->soft_bytes);
  if (machine.locked_memory->is_exempt) {
    return {"locked_memory", Tristate::yes, limit + ", which does not bind this process (CAP_IPC_LOCK)", ""};
  }
  if (machine.locked_memory->soft_bytes >= kRingBytes) return {"locked_memory", Tristate::yes, limit, ""};
  return {"locked_memory", Tristate::no, limit + ": io_uring cannot register all bounce buffers, which is slower",
          remedy};
}

// Without any GPU the library uses host memory in its place. A GPU that cannot be reached is another matter.
Need need_device(const Machine& machine) {
  if (machine.probe && machine.probe->device_kind.empty()) {
    return {"device", Tristate::no, "a session cannot open: " + machine.probe->device_reason, "Correct what it names."};
  }
  Need driver = need_driver(machine);
  driver.code = "device";
  if (driver.met == Tristate::yes || !machine.nvidia_gpus().empty()) return driver;
  return {"device", Tristate::yes, "no NVIDIA GPU: host memory stands in for one", ""};
}

Need need_nvidia_fs(const Machine& machine) {
  if (machine.nvidia_fs.is_loaded) return {"nvidia_fs", Tristate::yes, "nvidia-fs " + machine.nvidia_fs.version, ""};
  return {"nvidia_fs", Tristate::no, "the nvidia-fs kernel module is not loaded",
          "Install the nvidia-fs package and load it: modprobe nvidia-fs."};
}

// WekaFS's name is always listed, and counts where such a file system is mounted and the path takes it.
Need need_nvidia_fs_storage(const Machine& machine, int path) {
  std::vector<std::string> names = machine.nvidia_fs.storage_drivers;
  const bool is_listed = std::find(names.begin(), names.end(), core::kAlwaysListed) != names.end();
  if (path != PENSTOCK_PATH_VENDOR || !has_weka(machine)) std::erase(names, core::kAlwaysListed);
  if (!names.empty()) {
    return {"nvidia_fs_storage", Tristate::yes, fmt::format("registered with nvidia-fs: {}", fmt::join(names, ", ")),
            ""};
  }
  if (!machine.hooked_drivers.empty()) {
    return {"nvidia_fs_storage", Tristate::unknown,
            fmt::format("none has registered with nvidia-fs yet; when it is opened, those with its hooks do: {}",
                        fmt::join(machine.hooked_drivers, ", ")),
            "See which do while a program has it open: cat /proc/driver/nvidia-fs/modules."};
  }
  const std::string weka = is_listed ? " (wekafsio, which it always lists, serves mounts of WekaFS alone)" : "";
  return {"nvidia_fs_storage", Tristate::no, "no storage driver is registered with nvidia-fs" + weka,
          "Use a storage driver made for it, from MLNX_OFED or Ubuntu's nvidia kernel."};
}

// A driver that nothing mounted uses serves nothing.
Need need_nvidia_fs_mount(const Machine& machine, int path) {
  for (const core::FileSystem& one : machine.file_systems) {
    if (const StorageKind* const kind = kind_by_nvidia_fs(machine, one, path)) {
      return {"nvidia_fs_mount", Tristate::yes, fmt::format("{} at {}", kind->name, one.mount.mount_point), ""};
    }
  }
  return {"nvidia_fs_mount", Tristate::no, "no file system is mounted whose driver is registered with nvidia-fs",
          "Mount one: ext4 with data=ordered or XFS on such a drive, or a network file system of such a driver."};
}

void add_nvidia_fs_storage(const Machine& machine, PathReport& report) {
  report.needs.push_back(need_nvidia_fs_storage(machine, report.path));
  if (report.needs.back().met != Tristate::no) report.needs.push_back(need_nvidia_fs_mount(machine, report.path));
}

// As its client without NVIDIA's library.
Need need_nvidia_fs_version(const Machine& machine) {
  const std::string text = "nvidia-fs " + machine.nvidia_fs.module_version;
  const auto version = core::parse_nvidia_fs_version(machine.nvidia_fs.module_version);
  switch (version ? core::standing_of(*version) : core::NvidiaFsStanding::unknown) {
    case core::NvidiaFsStanding::known: return {"nvidia_fs_version", Tristate::yes, text, ""};
    case core::NvidiaFsStanding::aged:
      return {"nvidia_fs_version", Tristate::unknown, text + ": corrupts lists of memory of 4 GiB and more",
              "Use 2.20.5 or later."};
    case core::NvidiaFsStanding::stand_in:
      return {"nvidia_fs_version", Tristate::unknown, text + ": a stand-in for tests, which proves no DMA",
              "Load NVIDIA's module."};
    case core::NvidiaFsStanding::unknown: break;
  }
  return {"nvidia_fs_version", Tristate::no, text + " is not known here, or has errors that no caller can avoid",
          "Use a version from 2.20 to 2.28, but not 2.25.6."};
}

Need need_vendor_library(const Machine& machine) {
  if (machine.has_vendor_library) return {"vendor_library", Tristate::yes, "NVIDIA's libcufile.so.0", ""};
  return {"vendor_library", machine.probe ? Tristate::no : Tristate::unknown, "NVIDIA's libcufile.so.0 cannot be found",
          "Install libcufile of the CUDA toolkit."};
}

Need need_udev(const Machine& machine) {
  if (machine.has_udev == Tristate::yes) return {"udev_database", Tristate::yes, "/run/udev/data", ""};
  return {"udev_database", machine.has_udev, "no /run/udev/data: NVIDIA's library refuses every file",
          "Run udevd, or mount the host's /run/udev into the container, read-only."};
}

// As of Penstock's own GPU memory: what is experimental is switched on by who runs the machine.
Need need_nvfs_on(const Machine& machine) {
  const std::string text = "experimental: not yet run beside NVIDIA's module, and off unless PENSTOCK_NVFS=on";
  if (machine.probe && machine.probe->calls_nvidia_fs) return {"nvfs_setting", Tristate::yes, text, ""};
  return {"nvfs_setting", machine.probe ? Tristate::no : Tristate::unknown, text,
          "See with prove-direct whether it works here, then set PENSTOCK_NVFS=on."};
}

// Memory of a GPU is a matter of its own, also where nothing stands in the way.
Need need_export(const Machine& machine) {
  const char* text = "memory of NVIDIA GPUs: experimental, and off unless PENSTOCK_NVIDIA_EXPORT=on";
  if (machine.probe && machine.probe->exports_gpu_memory) {
    return {"nvidia_export", Tristate::yes, "PENSTOCK_NVIDIA_EXPORT=on: experimental", ""};
  }
  return {"nvidia_export", machine.probe ? Tristate::no : Tristate::unknown, text,
          "Set PENSTOCK_NVIDIA_EXPORT=on; only memory that Penstock allocated can be exported."};
}

// What stands between the two that are best off. Nothing there means that a self-test may try.
PathReport report_p2pdma(const Machine& machine) {
  PathReport report{PENSTOCK_PATH_P2PDMA, false, PENSTOCK_REASON_NONE, {}};
  const std::vector<PeerPair> pairs = peer_pairs(machine);
  const PeerPair* best = best_pair(pairs);
  if (best == nullptr) {
    const bool has_peer = !machine.peers().empty();
    if (!has_peer) report.needs.push_back(need_gpu(machine));
    if (has_peer) report.needs.push_back({"storage", Tristate::no, "no file system can be seen", "Mount one."});
    report.reason = reason_of(has_peer ? core::Obstacle::stack_unseen : core::Obstacle::peer_unseen);
    return report;
  }
  report.needs.push_back({"pair", Tristate::yes, "the most likely pair: " + pair_text(*best), ""});
  for (const core::Finding& finding : best->findings) report.needs.push_back(need_of(finding));
  for (const core::Finding& finding : best->write_findings) report.needs.push_back(need_of(finding));
  const Need exported = need_export(machine);
  const bool is_off = best->peer->is_nvidia_gpu() && exported.met == Tristate::no;
  if (best->peer->is_nvidia_gpu()) report.needs.push_back(exported);
  const core::Finding* stop = core::first_stop(best->findings);
  report.usable = stop == nullptr && !is_off;
  if (!report.usable) {
    report.reason = reason_of(stop != nullptr ? stop->obstacle : core::Obstacle::pointer_not_exportable);
  }
  return report;
}

PathReport report_pagecache(const Machine& machine) {
  PathReport report{PENSTOCK_PATH_PAGECACHE, true, PENSTOCK_REASON_NONE, {need_gpu(machine), need_driver(machine)}};
  const int reasons[] = {reason_of(core::Obstacle::peer_unseen), reason_of(core::Obstacle::gpu_driver)};
  for (std::size_t i = 0; i < report.needs.size() && report.usable; ++i) {
    report.usable = report.needs[i].met != Tristate::no;
    if (!report.usable) report.reason = reasons[i];
  }
  return report;
}

// The reason of the first need that is not met.
using ReasonOfNeed = std::pair<const char*, int>;
void judge_by_needs(std::span<const ReasonOfNeed> reasons, PathReport& report) {
  const auto is_missing = [](const Need& need) { return need.met == Tristate::no; };
  const auto missing = std::find_if(report.needs.begin(), report.needs.end(), is_missing);
  report.usable = missing == report.needs.end();
  if (report.usable) return;
  const auto of_need = [&](const ReasonOfNeed& one) { return std::string_view(one.first) == missing->code; };
  report.reason = std::find_if(reasons.begin(), reasons.end(), of_need)->second;
}

PathReport report_nvfs(const Machine& machine) {
  PathReport report{PENSTOCK_PATH_NVFS,
                    true,
                    PENSTOCK_REASON_NONE,
                    {need_gpu(machine), need_driver(machine), need_nvidia_fs(machine)}};
  const ReasonOfNeed reasons[] = {{"gpu", reason_of(core::Obstacle::peer_unseen)},
                                  {"gpu_driver", reason_of(core::Obstacle::gpu_driver)},
                                  {"nvidia_fs", PENSTOCK_REASON_NVFS_MISSING},
                                  {"nvidia_fs_storage", kNvfsNoDriver},
                                  {"nvidia_fs_mount", kNvfsNoDriver},
                                  {"nvidia_fs_version", PENSTOCK_REASON_NVFS_VERSION},
                                  {"nvfs_setting", kNvfsOff}};
  if (machine.nvidia_fs.is_loaded) {
    add_nvidia_fs_storage(machine, report);
    report.needs.push_back(need_nvidia_fs_version(machine));
    report.needs.push_back(need_nvfs_on(machine));
  }
  judge_by_needs(reasons, report);
  return report;
}

PathReport report_vendor(const Machine& machine) {
  PathReport report{PENSTOCK_PATH_VENDOR,
                    true,
                    PENSTOCK_REASON_NONE,
                    {need_gpu(machine), need_driver(machine), need_vendor_library(machine), need_nvidia_fs(machine)}};
  add_nvidia_fs_storage(machine, report);
  report.needs.push_back(need_udev(machine));
  const ReasonOfNeed reasons[] = {{"gpu", reason_of(core::Obstacle::peer_unseen)},
                                  {"gpu_driver", reason_of(core::Obstacle::gpu_driver)},
                                  {"vendor_library", PENSTOCK_REASON_VENDOR_LIBRARY_MISSING},
                                  {"nvidia_fs", PENSTOCK_REASON_NVIDIA_FS_MISSING},
                                  {"nvidia_fs_storage", PENSTOCK_REASON_NVIDIA_FS_MISSING},
                                  {"nvidia_fs_mount", PENSTOCK_REASON_NVIDIA_FS_MISSING},
                                  {"udev_database", PENSTOCK_REASON_VENDOR_REFUSED}};
  judge_by_needs(reasons, report);
  return report;
}

PathReport report_bounce(const Machine& machine) {
  PathReport report{PENSTOCK_PATH_BOUNCE,
                    true,
                    PENSTOCK_REASON_NONE,
                    {need_device(machine), need_io_uring(machine), need_locked_memory(machine)}};
  if (report.needs[1].met != Tristate::yes) report.reason = PENSTOCK_REASON_IO_URING_FORBIDDEN;
  if (report.needs[0].met != Tristate::yes) {
    report.usable = false;
    report.reason = PENSTOCK_REASON_STAND_IN;
  }
  return report;
}

// What is not here needs nothing that could be read of a machine.
constexpr struct {
  int path;
  PathReport (*report)(const Machine& machine);
} kReports[] = {{PENSTOCK_PATH_P2PDMA, report_p2pdma},
                {PENSTOCK_PATH_PAGECACHE, report_pagecache},
                {PENSTOCK_PATH_NVFS, report_nvfs},
                {PENSTOCK_PATH_VENDOR, report_vendor},
                {PENSTOCK_PATH_BOUNCE, report_bounce}};

PathReport report_path(const core::PathRow& row, const Machine& machine) {
  PathReport report{static_cast<int>(row.id), true, PENSTOCK_REASON_NONE, {}};
  for (const auto& known : kReports) {
    if (known.path == report.path) report = known.report(machine);
  }
  report.is_proven = row.traits.direct;
  return report;
}

}  // namespace

const char* state_name(Tristate met) {
  return met == Tristate::yes ? "ok" : met == Tristate::no ? "missing" : "unknown";
}

Need need_io_uring(const Machine& machine) {
  const char* remedy = "Set kernel.io_uring_disabled=0; allow io_uring in the container's seccomp profile.";
  if (machine.probe && machine.probe->io_uring_error == ENOMEM) remedy = "Raise the locked-memory limit (ulimit -l).";
  if (machine.probe) {
    if (machine.probe->io_uring_error == 0) return {"io_uring", Tristate::yes, "io_uring works", ""};
    return {"io_uring", Tristate::no,
            fmt::format("io_uring is refused ({}): preadv2 and pwritev2 stand in, which is slower",
                        std::strerror(machine.probe->io_uring_error)),
            remedy};
  }
  if (machine.io_uring_disabled.value_or(0) == 0) return {"io_uring", Tristate::yes, "no switch forbids io_uring", ""};
  return {"io_uring", *machine.io_uring_disabled == 2 ? Tristate::no : Tristate::unknown,
          fmt::format("kernel.io_uring_disabled={}: preadv2 and pwritev2 stand in, which is slower",
                      *machine.io_uring_disabled),
          remedy};
}

std::string bytes_text(std::uint64_t bytes) { return bytes == core::kUnlimited ? "unlimited" : format_size(bytes); }

bool is_direct_path(int path) {
  const bool is_known = path >= 0 && path < static_cast<int>(core::kPathCount);
  return is_known && core::traits_of(static_cast<core::PathId>(path)).direct;
}

std::vector<PathReport> report_paths(const Machine& machine) {
  std::vector<PathReport> reports;
  for (const core::PathRow& row : core::kPaths) {
    if (row.traits.by_default()) reports.push_back(report_path(row, machine));
  }
  return reports;
}

}  // namespace penstock::tools
