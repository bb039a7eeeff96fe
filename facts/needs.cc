// SPDX-License-Identifier: Apache-2.0

#include "facts/needs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/size_text.h"
#include "device/cuda/cuda_api.h"
#include "facts/matrix.h"
#include "topology/nvidia_fs_storage.h"
#include "topology/nvidia_fs_version.h"

namespace penstock::facts {
namespace {

using core::Tristate;

constexpr std::uint64_t kRingBytes = 256 << 20;  // The library's default.
constexpr core::KernelVersion kNewestWithoutDmabufs{7, 3};

}  // namespace

Finding need_gpu(const Machine& machine) {
  // CUDA may know GPUs that the PCI bus does not show: in Windows Subsystem for Linux, in some sandboxes.
  const std::size_t of_cuda = machine.probe ? machine.probe->cuda_devices() : 0;
  const std::size_t count = of_cuda > 0 ? of_cuda : machine.nvidia_gpus().size();
  if (count > 0) return need("gpu", State::pass, fmt::format("{} NVIDIA GPU{}", count, count == 1 ? "" : "s"), "");
  const bool has_amd = std::any_of(machine.pci.begin(), machine.pci.end(), [](auto& one) { return one.is_amd_gpu(); });
  return need("gpu", State::fail, has_amd ? "an AMD GPU, no NVIDIA GPU" : "no NVIDIA GPU on the PCI bus",
              "Run on a machine with an NVIDIA GPU; GPUs of other makers are not supported yet.");
}

Finding why_stand_in(const Machine& machine, const std::string& reason) {
  const Finding told = need("device", State::fail, reason);
  if (!reason.starts_with(core::cuda::kDriverNotLoaded)) return told;
  Finding gpu = need_gpu(machine), driver = need_driver(machine);
  if (gpu.state == State::fail && !machine.nvidia.is_loaded) return gpu;
  driver.sentence = reason;
  return driver;
}

Finding why_stand_in_here(const std::string& reason) {
  Machine machine;
  if (const auto root = core::Root::open(""); root.ok()) {
    machine.pci = core::read_pci_devices(*root);
    machine.nvidia = core::read_nvidia_driver(*root);
  }
  return why_stand_in(machine, reason);
}

namespace {

bool has_gpu_node(const Machine& machine) {
  const auto is_gpu_node = [](const std::string& name) {
    return name.size() > 6 && std::all_of(name.begin() + 6, name.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  return std::any_of(machine.nvidia.device_nodes.begin(), machine.nvidia.device_nodes.end(), is_gpu_node);
}

}  // namespace

// Judges the CUDA driver: on this machine by opening it, on a captured one as far as its files show.
Finding need_driver(const Machine& machine) {
  const core::NvidiaDriver& driver = machine.nvidia;
  const std::string version = driver.version_text.empty() ? "NVIDIA's driver" : "driver " + driver.version_text;
  if (machine.probe && machine.probe->cuda_devices() > 0) return need("gpu_driver", State::pass, version, "");
  if (!driver.is_loaded) {
    return need("gpu_driver", State::fail, "NVIDIA's kernel driver is not loaded",
                "Install NVIDIA's driver and load it: modprobe nvidia-uvm.");
  }
  if (!has_gpu_node(machine)) {
    return need("gpu_driver", State::fail, version + " is loaded, but there is no /dev/nvidia0 here",
                machine.platform.container.empty() ? "Create the device nodes: nvidia-modprobe -u -c 0."
                                                   : "Give the container its GPU, e.g. docker run --gpus all.");
  }
  if (!machine.probe) return need("gpu_driver", State::pass, version, "");
  return need("gpu_driver", State::fail,
              version + " is loaded, but CUDA cannot be used: " + machine.probe->device_reason,
              "Make libcuda.so.1 of the same version visible to the process.");
}

Finding need_of(const core::Finding& finding) {
  const bool is_slower_alone = finding.certainty == core::Certainty::certain && !finding.stops();
  const State state = finding.stops() ? State::fail : is_slower_alone ? State::warn : State::unknown;
  return need(finding.code(), state, finding.sentence(), finding.remedy());
}

Finding need_locked_memory(const Machine& machine) {
  const char* const remedy =
      machine.platform.container.empty()
          ? "Raise the limit where speed matters: ulimit -l 524288, or LimitMEMLOCK=512M of a service."
          : "Raise the limit where speed matters: start the container with --ulimit memlock=-1:-1; "
            "a pod has the one of its runtime's service on the host (LimitMEMLOCK).";
  if (!machine.locked_memory) return need("locked_memory", State::unknown, "the limit cannot be read", remedy);
  const std::string limit = bytes_text(machine.locked_memory->soft_bytes);
  if (machine.locked_memory->is_exempt) {
    return need("locked_memory", State::pass, limit + ", which does not bind this process (CAP_IPC_LOCK)", "");
  }
  if (machine.locked_memory->soft_bytes >= kRingBytes) return need("locked_memory", State::pass, limit, "");
  return need("locked_memory", State::fail, limit + ": io_uring cannot register all bounce buffers, which is slower",
              remedy);
}

// Without any GPU the library uses host memory in place of a GPU's. A GPU that is there and cannot be reached fails.
Finding need_device(const Machine& machine) {
  if (machine.probe && machine.probe->device_kind.empty()) {
    return need("device", State::fail, "a session cannot open: " + machine.probe->device_reason,
                "Correct the setting or device that it names.");
  }
  Finding driver = need_driver(machine);
  driver.code = "device";
  if (driver.state == State::pass || !machine.nvidia_gpus().empty()) return driver;
  return need("device", State::pass, "no NVIDIA GPU: host memory stands in for one", "");
}

Finding need_kernel_for_nvidia_fs(const Machine& machine) {
  constexpr const char* kCode = "nvidia_fs_kernel";
  const std::string& kernel = machine.platform.kernel_release;
  if (machine.platform.kernel.major != 0 && machine.platform.kernel < kNvidiaFsKernel) {
    const std::string least = core::text_of(kNvidiaFsKernel);
    return need(kCode, State::fail, fmt::format("Linux {} is too old: nvidia-fs needs {} or later", kernel, least),
                fmt::format("Boot Linux {} or later.", least));
  }
  const std::string newest = core::text_of(core::kNewestKnownNvidiaFs);
  if (core::stops_machine(core::kNewestKnownNvidiaFs, kernel) != core::Tristate::yes) {
    return need(kCode, State::pass, fmt::format("nvidia-fs {} is not known to crash Linux {}", newest, kernel), "");
  }
  return need(kCode, State::fail, fmt::format("nvidia-fs up to {} crashes a machine with Linux {}", newest, kernel),
              fmt::format("Do not load nvidia-fs up to {}: it crashes a machine with Linux {}. Load a later one "
                          "(modprobe nvidia-fs) only if NVIDIA says that it goes with this kernel.",
                          newest, kernel));
}

Finding need_nvidia_fs(const Machine& machine) {
  if (machine.nvidia_fs.is_loaded) return need("nvidia_fs", State::pass, "nvidia-fs " + machine.nvidia_fs.version, "");
  const Finding kernel = need_kernel_for_nvidia_fs(machine);
  return need(
      "nvidia_fs", State::fail, "the nvidia-fs kernel module is not loaded",
      kernel.state == State::fail ? kernel.remedy : "Install the nvidia-fs package and load it: modprobe nvidia-fs.");
}

namespace {

bool has_name(const std::vector<std::string>& drivers, std::string_view module) {
  return std::find(drivers.begin(), drivers.end(), module) != drivers.end();
}

// The name of a module's hook: "scsi_mod" has one of another name.
std::string hook_of(std::string_view module) { return module == "scsi_mod" ? "scsi" : std::string(module); }

}  // namespace

Finding need_registration(const Machine& machine, std::string_view module) {
  constexpr const char* kCode = "nvidia_fs_storage";
  if (has_name(machine.nvidia_fs.storage_drivers, module)) {
    return need(kCode, State::pass, fmt::format("registered with nvidia-fs: {}", module));
  }
  if (has_name(machine.hooked_drivers, module) || machine.evidence.has_hook(hook_of(module))) {
    return need(
        kCode, State::unknown,
        fmt::format(
            "{} has hooks for nvidia-fs and has not registered yet; it registers when a program opens nvidia-fs",
            module),
        "Look while a program has nvidia-fs open: cat /proc/driver/nvidia-fs/modules.");
  }
  // No known kernel has a SCSI driver with the hooks.
  if (machine.evidence.has_symbols != core::Tristate::yes && module != "scsi_mod") {
    return need(kCode, State::unknown,
                fmt::format("{} is not registered with nvidia-fs, and the kernel's symbols cannot be read", module),
                "Look as root: grep register_nvfs /proc/kallsyms.");
  }
  return need(kCode, State::fail,
              fmt::format("the driver {} is not registered with nvidia-fs, and has no hooks for it", module),
              "Use a storage driver made for nvidia-fs, from MLNX_OFED or Ubuntu's nvidia kernel.");
}

namespace {

Finding no_kind_known(const core::FileSystem& storage) {
  if (storage.mount.type.starts_with("nfs")) {
    return need("nfs_tcp", State::fail, "NFS is mounted by TCP", "Mount it by RDMA: mount -o proto=rdma,port=20049.");
  }
  return need("nvidia_fs_mount", State::fail,
              fmt::format("{} is on no drive or server that nvidia-fs knows", storage.mount.mount_point),
              "Put the data on ext4 or XFS on an NVMe drive, or a network file system with a driver for nvidia-fs.");
}

Finding need_type(const core::FileSystem& storage, const StorageKind& kind, int path) {
  constexpr const char* kCode = "nvidia_fs_mount";
  const core::Mount& mount = storage.mount;
  if (!core::nvidia_fs_takes(storage)) {
    return need(kCode, State::fail,
                fmt::format("nvidia-fs does not support {} on {}", mount.type, storage.stack->text()),
                "Put the data on ext4 or XFS straight on the drive.");
  }
  if (path == PENSTOCK_PATH_VENDOR && storage.stack && mount.type == "ext4" &&
      !mount.has_super_option(core::kOrderedData)) {
    return need("ext4_ordered", State::fail,
                "the mount options of ext4 do not show data=ordered, which NVIDIA's library looks for, so it copies "
                "through the CPU",
                "Mount it with data=ordered, even if that is the default.");
  }
  return need(kCode, State::pass, fmt::format("{} at {}", kind.name, mount.mount_point));
}

}  // namespace

Findings needs_of_storage(const Machine& machine, const core::FileSystem& storage, int path) {
  const StorageKind* const kind = kind_of(machine, storage, path);
  if (kind == nullptr) return {no_kind_known(storage)};
  Findings needs = {need_registration(machine, kind->module), need_type(storage, *kind, path)};
  if (machine.place_of(storage).has_small_blocks) {
    needs.push_back(need("small_blocks", State::fail,
                         "its blocks are smaller than 4 KiB, with which nvidia-fs corrupts bytes",
                         "Make the file system anew with blocks of 4 KiB (mkfs -b 4096)."));
  }
  const bool is_translated = std::string_view(kind->module) == "nvme" &&
                             machine.iommu.mode == core::IommuMode::translating &&
                             machine.platform.architecture == "x86_64";
  if (is_translated) {
    needs.push_back(need("iommu_translating", State::fail,
                         "the IOMMU translates the addresses of devices, and bytes between them may be corrupted",
                         "Boot with iommu=pt, or switch the IOMMU off in the firmware."));
  }
  return needs;
}

// Judges the version as Penstock's own client of the module sees it, without NVIDIA's library.
Finding need_nvidia_fs_version(const Machine& machine) {
  const std::string text = "nvidia-fs " + machine.nvidia_fs.module_version;
  constexpr const char* kCode = "nvidia_fs_version";
  const auto version = core::parse_nvidia_fs_version(machine.nvidia_fs.module_version);
  if (!version) return need(kCode, State::fail, text + " is no version", "Load NVIDIA's module.");
  if (version->is_stand_in()) {
    return need(kCode, State::unknown, text + ": a stand-in for tests, which proves no DMA", "Load NVIDIA's module.");
  }
  if (const core::NvidiaFsFault* const fault = core::fault_of_nvidia_fs(*version)) {
    return need(kCode, State::fail, text + " has a fault: " + fault->what,
                "Install nvidia-fs " + core::text_of(fault->fixed) + " or later.");
  }
  if (core::is_before(core::kNewestKnownNvidiaFs, *version)) {
    return need(kCode, State::unknown,
                text + " is newer than " + core::text_of(core::kNewestKnownNvidiaFs) +
                    ", the newest that Penstock was compared with: its first use tests the interface",
                "Run prove-direct to see if it works here (share/penstock of an installation, scripts/ of the "
                "sources).");
  }
  return need(kCode, State::pass, text, "");
}

Finding need_vendor_library(const Machine& machine) {
  if (machine.has_vendor_library) return need("vendor_library", State::pass, "NVIDIA's libcufile.so.0", "");
  return need("vendor_library", machine.probe ? State::fail : State::unknown, "NVIDIA's libcufile.so.0 cannot be found",
              "Install libcufile of the CUDA toolkit.");
}

Finding need_udev(const Machine& machine) {
  if (machine.has_udev == Tristate::yes) return need("udev_database", State::pass, "/run/udev/data", "");
  const State state = machine.has_udev == Tristate::no ? State::fail : State::unknown;
  return need("udev_database", state, "no /run/udev/data: NVIDIA's library refuses every file",
              "Run udevd, or mount the host's /run/udev into the container, read-only.");
}

Finding need_io_uring(const Machine& machine) {
  const char* remedy =
      machine.platform.container.empty()
          ? "Set kernel.io_uring_disabled=0; allow io_uring in the container's seccomp profile."
          : "On the host set kernel.io_uring_disabled=0; start the container with --security-opt seccomp=penstock.json "
            "(deploy/seccomp).";
  if (machine.probe && machine.probe->io_uring_error == ENOMEM) remedy = "Raise the locked-memory limit (ulimit -l).";
  if (machine.probe) {
    if (machine.probe->io_uring_error == 0) return need("io_uring", State::pass, "io_uring works", "");
    return need("io_uring", State::fail,
                fmt::format("io_uring is refused ({}): preadv2 and pwritev2 stand in, which is slower",
                            std::strerror(machine.probe->io_uring_error)),
                remedy);
  }
  if (machine.io_uring_disabled.value_or(0) == 0)
    return need("io_uring", State::pass, "no switch forbids io_uring", "");
  return need("io_uring", *machine.io_uring_disabled == 2 ? State::fail : State::unknown,
              fmt::format("kernel.io_uring_disabled={}: preadv2 and pwritev2 stand in, which is slower",
                          *machine.io_uring_disabled),
              remedy);
}

namespace {

// The library asks the kernel where there is a GPU, before it looks at the switch.
Tristate asked_for_dmabufs(const Machine& machine) {
  if (!machine.probe) return Tristate::unknown;
  for (const Verdict& one : machine.probe->verdicts) {
    if (one.path != PENSTOCK_PATH_DMABUF) continue;
    switch (one.reason) {
      case PENSTOCK_REASON_DMABUF_KERNEL:
      case PENSTOCK_REASON_DMABUF_NOT_BUILT: return Tristate::no;
      case PENSTOCK_REASON_DMABUF_OFF: return Tristate::yes;
      default: return one.usable != 0 ? Tristate::yes : Tristate::unknown;
    }
  }
  return Tristate::unknown;
}

}  // namespace

Finding need_dmabuf_kernel(const Machine& machine) {
  constexpr const char* kCode = "dmabuf_kernel";
  const core::KernelVersion& kernel = machine.platform.kernel;
  const std::string name = "Linux " + machine.platform.kernel_release;
  const Tristate asked = asked_for_dmabufs(machine);
  if (asked == Tristate::yes) return need(kCode, State::pass, "io_uring takes dma-bufs as buffers");
  if (asked == Tristate::no || (kernel.major != 0 && kernel <= kNewestWithoutDmabufs)) {
    return need(kCode, State::fail, "io_uring of " + name + " does not take dma-bufs as buffers");
  }
  return need(kCode, State::unknown, "whether io_uring of " + name + " takes dma-bufs as buffers is not known here",
              "Run penstock check on that machine.");
}

std::string bytes_text(std::uint64_t bytes) { return bytes == core::kUnlimited ? "unlimited" : core::size_text(bytes); }

}  // namespace penstock::facts
