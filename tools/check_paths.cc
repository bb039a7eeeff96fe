#include "check_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "units.h"

namespace penstock::tools {
namespace {

using core::PciDevice;
using core::Tristate;

constexpr std::uint64_t kRingBytes = 256 << 20;  // The library's default.

Need need_built() {
  return {"not_built", Tristate::no, penstock_reason_sentence(PENSTOCK_REASON_NOT_BUILT),
          "A later version may have it; until then the bounce path serves."};
}

Need need_gpu(const Machine& machine) {
  // CUDA may know GPUs that the PCI bus does not show: in Windows Subsystem for Linux, in some sandboxes.
  const bool has_cuda = machine.probe && machine.probe->device_kind == "cuda";
  const std::size_t count = has_cuda ? machine.probe->devices.size() : machine.nvidia_gpus().size();
  if (count > 0) return {"gpu", Tristate::yes, fmt::format("{} NVIDIA GPU{}", count, count == 1 ? "" : "s"), ""};
  const bool has_amd = std::any_of(machine.pci.begin(), machine.pci.end(), [](auto& one) { return one.is_amd_gpu(); });
  return {"gpu", Tristate::no, has_amd ? "an AMD GPU, no NVIDIA GPU" : "no NVIDIA GPU on the PCI bus",
          "Run on a machine with an NVIDIA GPU; other makers' are not reached yet."};
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
  if (machine.probe && machine.probe->device_kind == "cuda") return {"gpu_driver", Tristate::yes, version, ""};
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

Need need_kernel_p2pdma(const Machine& machine) {
  const char* remedy = "Boot a kernel built with CONFIG_PCI_P2PDMA=y (Debian has it from 6.13.7 on).";
  switch (machine.p2pdma) {
    case Tristate::yes: return {"kernel_p2pdma", Tristate::yes, "the kernel has CONFIG_PCI_P2PDMA", ""};
    case Tristate::no: return {"kernel_p2pdma", Tristate::no, "the kernel lacks CONFIG_PCI_P2PDMA", remedy};
    default:
      return {"kernel_p2pdma", Tristate::unknown, "neither symbols nor configuration of the kernel can be read",
              remedy};
  }
}

Need need_kernel_version(const Machine& machine) {
  const core::KernelVersion kernel = machine.platform.kernel;
  const std::string text = "Linux " + machine.platform.kernel_release;
  if (kernel.major == 0) {
    return {"kernel_version", Tristate::unknown, "the kernel's release cannot be read", "Needs Linux 6.2 or later."};
  }
  if (kernel < core::KernelVersion{6, 2}) {
    return {"kernel_version", Tristate::no, text + " gives device pages to no process", "Boot Linux 6.2 or later."};
  }
  if (kernel == core::KernelVersion{6, 16}) {
    return {"kernel_version", Tristate::no, text + " fails device-page transfers above 4 KiB",
            "Boot another kernel than 6.16."};
  }
  return {"kernel_version", Tristate::yes, text, ""};
}

// 565.57 brought the export. Since Linux 6.15 the driver's own check of the pages fails before 595.44.
Need need_driver_version(const Machine& machine) {
  const core::NvidiaDriver& driver = machine.nvidia;
  const bool is_new_kernel = machine.platform.kernel >= core::KernelVersion{6, 15};
  const core::DriverVersion least = is_new_kernel ? core::DriverVersion{595, 44} : core::DriverVersion{565, 57};
  const std::string remedy = fmt::format("Install NVIDIA driver {}.{} or later{}.", least.major, least.minor,
                                         is_new_kernel ? ", which this kernel asks for" : "");
  if (driver.version.major == 0) return {"driver_version", Tristate::no, "no NVIDIA driver to be seen", remedy};
  if (driver.version < least) {
    return {"driver_version", Tristate::no, "driver " + driver.version_text + " cannot export device pages here",
            remedy};
  }
  return {"driver_version", Tristate::yes, "driver " + driver.version_text, ""};
}

Need need_registry_key(const Machine& machine, const char* code, const char* key, std::optional<int> value) {
  if (value.value_or(0) > 0) return {code, Tristate::yes, fmt::format("{}={}", key, *value), ""};
  const std::string remedy = fmt::format("Set {}=1 in module nvidia's NVreg_RegistryDwords; reload it.", key);
  if (!machine.nvidia.has_parameters) {
    return {code, Tristate::unknown, "the driver's parameters cannot be read", remedy};
  }
  return {code, Tristate::no, fmt::format("{} is not set", key), remedy};
}

Need need_uvm(const Machine& machine) {
  const auto& nodes = machine.nvidia.device_nodes;
  const bool has_node = std::find(nodes.begin(), nodes.end(), "nvidia-uvm") != nodes.end();
  if (has_node) return {"nvidia_uvm", Tristate::yes, "/dev/nvidia-uvm", ""};
  return {"nvidia_uvm", Tristate::no, "there is no /dev/nvidia-uvm", "Load it: nvidia-modprobe -u -c 0."};
}

// The driver makes the pages when the first CUDA context opens, so their absence proves nothing.
Need need_peer_memory(const Machine& machine) {
  for (const PciDevice* gpu : machine.nvidia_gpus()) {
    if (gpu->has_peer_memory) return {"peer_memory", Tristate::yes, "p2pmem of GPU " + gpu->address, ""};
  }
  return {"peer_memory", Tristate::unknown, "no GPU has device pages (p2pmem) at this moment",
          "They show once a CUDA context is open: check again while a program uses the GPU."};
}

Need need_drive(const Machine& machine) {
  const core::FileSystem* maybe = nullptr;
  for (const core::FileSystem& one : machine.file_systems) {
    if (one.device_pages.has == Tristate::yes) {
      return {"drive", Tristate::yes, fmt::format("{} on {}", one.mount.mount_point, one.stack->name), ""};
    }
    if (one.device_pages.has == Tristate::unknown && one.stack) maybe = &one;
  }
  const char* remedy = "Use ext4 or XFS right on a PCIe NVMe drive: no LVM, encryption, loop or virtio.";
  if (maybe != nullptr) {
    return {"drive", Tristate::unknown,
            fmt::format("{} on {}: {}", maybe->mount.mount_point, maybe->stack->name, maybe->device_pages.because),
            remedy};
  }
  return {"drive", Tristate::no, "no mounted file system is on a drive that takes device pages", remedy};
}

// The best pair there is: under one switch always works; past the root complex only on processors known to route it.
Need need_place(const Machine& machine) {
  const bool is_zen = machine.platform.cpu_vendor == "AuthenticAMD" && machine.platform.cpu_family >= 0x17;
  std::string near;
  std::string far;
  for (const PciDevice* gpu : machine.nvidia_gpus()) {
    for (const PciDevice& drive : machine.pci) {
      if (!drive.is_nvme()) continue;
      const bool is_near = core::pci_relation(*gpu, drive) == core::PciRelation::same_switch;
      (is_near ? near : far) = fmt::format("GPU {} and drive {}", gpu->address, drive.address);
    }
  }
  if (!near.empty()) return {"pcie_place", Tristate::yes, near + " share a PCIe switch", ""};
  if (far.empty()) {
    return {"pcie_place", Tristate::no, "there is no pair of GPU and NVMe drive",
            "Run on a machine that has both on its PCI bus."};
  }
  if (is_zen) return {"pcie_place", Tristate::yes, far + " meet in a processor that routes between them", ""};
  return {"pcie_place", Tristate::unknown, far + " meet in the processor, which must be on the kernel's list",
          "Put GPU and drive under one PCIe switch where the self-test fails."};
}

Need need_iommu(const Machine& machine) {
  const std::string text = std::string("the IOMMU is ") + core::iommu_mode_name(machine.iommu.mode);
  if (machine.iommu.mode == core::IommuMode::off || machine.iommu.mode == core::IommuMode::passthrough) {
    return {"iommu", Tristate::yes, text, ""};
  }
  return {"iommu", Tristate::unknown, text + ": bytes may get lost on the way, so a self-test decides",
          "Boot with iommu=pt where the self-test fails."};
}

Need need_locked_memory(const Machine& machine) {
  const char* remedy = "Raise it where speed matters: ulimit -l 524288, or LimitMEMLOCK=512M of a service.";
  if (!machine.locked_memory) return {"locked_memory", Tristate::unknown, "the limit cannot be read", remedy};
  const std::string limit = bytes_text(machine.locked_memory->soft_bytes);
  if (machine.locked_memory->is_exempt) {
    return {"locked_memory", Tristate::yes, limit + ", which does not bind this process (CAP_IPC_LOCK)", ""};
  }
  if (machine.locked_memory->soft_bytes >= kRingBytes) return {"locked_memory", Tristate::yes, limit, ""};
  return {"locked_memory", Tristate::no, limit + ": io_uring cannot register a full ring; slower", remedy};
}

// Without any GPU the library uses host memory in its place. A GPU that cannot be reached is another matter.
Need need_device(const Machine& machine) {
  if (machine.probe && machine.probe->device_kind.empty()) {
    return {"device", Tristate::no, "no session opens: " + machine.probe->device_reason, "Remove what it names."};
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

Need need_nvidia_fs_storage(const Machine& machine) {
  std::string names;
  for (const std::string& name : machine.nvidia_fs.storage_drivers) names += (names.empty() ? "" : ", ") + name;
  if (!names.empty()) return {"nvidia_fs_storage", Tristate::yes, "registered with nvidia-fs: " + names, ""};
  return {"nvidia_fs_storage", Tristate::no, "no storage driver is registered with nvidia-fs",
          "Use a storage driver made for it: of MLNX_OFED, or Ubuntu's nvidia kernel."};
}

Need need_vendor_library(const Machine& machine) {
  if (machine.has_vendor_library) return {"vendor_library", Tristate::yes, "NVIDIA's libcufile.so.0", ""};
  return {"vendor_library", machine.probe ? Tristate::no : Tristate::unknown,
          "NVIDIA's libcufile.so.0 is not to be seen", "Install libcufile of the CUDA toolkit."};
}

Need need_udev(const Machine& machine) {
  if (machine.has_udev) return {"udev_database", Tristate::yes, "/run/udev/data", ""};
  return {"udev_database", Tristate::no, "no /run/udev/data: NVIDIA's library refuses every file",
          "Run udevd, or mount the host's /run/udev into the container, read-only."};
}

PathReport report_p2pdma(const Machine& machine) {
  return {PENSTOCK_PATH_P2PDMA,
          false,
          PENSTOCK_REASON_NOT_BUILT,
          {need_built(), need_gpu(machine), need_kernel_p2pdma(machine), need_kernel_version(machine),
           need_driver_version(machine), need_uvm(machine),
           need_registry_key(machine, "static_bar1", "RMForceStaticBar1", machine.nvidia.static_bar1),
           need_registry_key(machine, "write_combining", "RmForceDisableIomapWC", machine.nvidia.write_combining_off),
           need_peer_memory(machine), need_drive(machine), need_place(machine), need_iommu(machine)}};
}

PathReport report_pagecache(const Machine& machine) {
  return {PENSTOCK_PATH_PAGECACHE,
          false,
          PENSTOCK_REASON_NOT_BUILT,
          {need_built(), need_gpu(machine), need_driver(machine)}};
}

PathReport report_vendor(const Machine& machine) {
  return {PENSTOCK_PATH_VENDOR,
          false,
          PENSTOCK_REASON_NOT_BUILT,
          {need_built(), need_gpu(machine), need_driver(machine), need_vendor_library(machine), need_nvidia_fs(machine),
           need_nvidia_fs_storage(machine), need_udev(machine)}};
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

PathReport report_host(const Machine&) { return {PENSTOCK_PATH_HOST, true, PENSTOCK_REASON_NONE, {}}; }

}  // namespace

Need need_io_uring(const Machine& machine) {
  const char* remedy = "Set kernel.io_uring_disabled=0; let a container's seccomp profile pass io_uring.";
  if (machine.probe && machine.probe->io_uring_error == ENOMEM) remedy = "Raise the locked-memory limit (ulimit -l).";
  if (machine.probe) {
    if (machine.probe->io_uring_error == 0) return {"io_uring", Tristate::yes, "io_uring works", ""};
    return {"io_uring", Tristate::no,
            fmt::format("io_uring is refused ({}): preadv2 and pwritev2 stand in, slower",
                        std::strerror(machine.probe->io_uring_error)),
            remedy};
  }
  if (machine.io_uring_disabled.value_or(0) == 0) return {"io_uring", Tristate::yes, "no switch forbids io_uring", ""};
  return {"io_uring", *machine.io_uring_disabled == 2 ? Tristate::no : Tristate::unknown,
          fmt::format("kernel.io_uring_disabled={}: preadv2 and pwritev2 stand in, slower", *machine.io_uring_disabled),
          remedy};
}

std::string bytes_text(std::uint64_t bytes) { return bytes == core::kUnlimited ? "unlimited" : format_size(bytes); }

std::vector<PathReport> report_paths(const Machine& machine) {
  return {report_p2pdma(machine), report_pagecache(machine), report_vendor(machine), report_bounce(machine),
          report_host(machine)};
}

}  // namespace penstock::tools
