#include "gdscheck_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace penstock::tools {
namespace {

using core::Setting;
using core::SettingKind;

// Of cuFile, whose interface this is; the same numbers that cuFileGetVersion tells.
constexpr const char* kReleaseVersion = "1.15.0.0";
constexpr const char* kLibraryVersion = "1.15";

std::string banner(const std::string& title) {
  const std::string line(title.size() + 1, '=');
  return fmt::format(" {}\n {}:\n {}\n", line, title, line);
}

std::string row(std::string_view name, std::string_view value) {
  return printable(fmt::format(" {:<20} : {}", name, value)) + "\n";
}

const PathReport* path_of(const GdsPlatform& platform, int path) {
  const auto found = std::find_if(platform.paths.begin(), platform.paths.end(),
                                  [&](const PathReport& report) { return report.path == path; });
  return found == platform.paths.end() ? nullptr : &*found;
}

// cuFile programs bring memory of their own, which cannot be offered to storage yet: p2pdma serves none of them.
bool is_usable(const GdsPlatform& platform, int path) {
  // That these may be tried says nothing yet: their self-tests decide.
  if (path == PENSTOCK_PATH_P2PDMA || path == PENSTOCK_PATH_VENDOR) return false;
  const PathReport* report = path_of(platform, path);
  return report != nullptr && report->usable;
}

// Files that no direct path serves go through host memory: what cuFile calls compatible.
bool has_compat(const GdsPlatform& platform) {
  const core::Settings& settings = platform.loaded.settings;
  return is_usable(platform, PENSTOCK_PATH_BOUNCE) && !platform.loaded.must_refuse &&
         (settings.is_on("properties.allow_compat_mode") || settings.is_on("properties.force_compat_mode"));
}

// ---- Driver configuration

struct StorageKind {
  const char* name;
  const char* module;  // As it registers with nvidia-fs.
};
constexpr StorageKind kStorageKinds[] = {
    {"NVMe", "nvme"},          {"NVMeOF", "nvme_rdma"},
    {"SCSI", "scsi_mod"},      {"ScaleFlux CSD", "sfxvdriver"},
    {"FSx Lustre", "lustre"},  {"NVMesh", "nvmeib_common"},
    {"DDN EXAScaler", "lnet"}, {"IBM Spectrum Scale", "mmfslinux"},
    {"NFS", "rpcrdma"},        {"BeeGFS", "beegfs"},
    {"ScaTeFS", "scatefs"},    {"VIRTIOFS", "virtiofs"},
    {"WekaFS", "wekafsio"},
};

std::string ways_of(const GdsPlatform& platform, const StorageKind& kind) {
  std::string ways;
  const auto add = [&](const char* way) { ways += (ways.empty() ? "" : ", ") + std::string(way); };
  const std::vector<std::string>& modules = platform.machine.nvidia_fs.storage_drivers;
  const bool is_registered = std::find(modules.begin(), modules.end(), kind.module) != modules.end();
  const bool is_drive = std::string_view(kind.name) == "NVMe";
  if (is_usable(platform, PENSTOCK_PATH_VENDOR) && is_registered) add("nvfs");
  if (is_usable(platform, PENSTOCK_PATH_P2PDMA) && is_drive) add("p2pdma");
  if (has_compat(platform)) add("compat");
  return ways.empty() ? "Unsupported" : ways;
}

std::string driver_section(const GdsPlatform& platform) {
  std::string text = banner("DRIVER CONFIGURATION");
  for (const StorageKind& kind : kStorageKinds) text += row(kind.name, ways_of(platform, kind));
  text += row("Userspace RDMA", "Unsupported");
  text += row("--Mellanox PeerDirect", "Disabled");
  text += row("--DmaBuf support", "Disabled");
  text += row("--rdma library", "Not Loaded (libcufile_rdma.so)");
  text += row("--rdma devices", "Not configured");
  text += row("--rdma_device_status", "Up: 0 Down: 0");
  return text;
}

// ---- Environment, configuration

std::string environment_section(const GdsPlatform& platform) {
  std::string text = banner("ENVIRONMENT");
  for (const auto& [name, value] : platform.variables) text += row(name, value);
  const std::string& file = platform.loaded.file;
  text += row("Configuration file", file.empty() ? "none; the defaults hold" : file);
  return text;
}

std::string configuration_section(const GdsPlatform& platform) {
  std::string text = banner("CUFILE CONFIGURATION");
  const core::LoadedSettings& loaded = platform.loaded;
  for (std::size_t i = 0; i < core::kSettingCount; ++i) {
    const Setting setting = Setting::at(i);
    if (setting.key().starts_with("call.")) continue;
    text += printable(fmt::format(" {} : {}", core::printed_name(setting), loaded.settings.text_of(setting))) + "\n";
  }
  for (const core::Note& note : loaded.notes) text += " Warning: " + printable(core::describe(note)) + "\n";
  return text;
}

// ---- GPUs, platform

const char* iommu_text(const core::Iommu& iommu) {
  switch (iommu.mode) {
    case core::IommuMode::off: return "Disabled";
    case core::IommuMode::passthrough: return "Pass-through";
    case core::IommuMode::translating: return "Enabled";
    case core::IommuMode::unknown: break;
  }
  return "Unknown";
}

std::string bar_text(const Machine& machine, std::string_view address) {
  for (const GpuBar& bar : machine.gpu_bars) {
    if (bar.pci_address == address) return fmt::format("bar:1 bar size (MiB):{}", bar.bytes >> 20);
  }
  return "bar:1 bar size (MiB):unknown";
}

std::string gpu_row(const GdsPlatform& platform, std::size_t index, std::string_view name, std::string_view address) {
  const bool is_direct = is_usable(platform, PENSTOCK_PATH_P2PDMA) || is_usable(platform, PENSTOCK_PATH_VENDOR);
  const char* support = is_direct              ? "supports GDS"
                        : has_compat(platform) ? "served in compat mode, no direct path"
                                               : "not supported";
  return printable(fmt::format(" GPU index {} {} {} {}, IOMMU State: {}", index, name,
                               bar_text(platform.machine, address), support, iommu_text(platform.machine.iommu))) +
         "\n";
}

std::string gpu_section(const GdsPlatform& platform) {
  const Machine& machine = platform.machine;
  std::string text = banner("GPU INFO");
  std::size_t index = 0;
  if (machine.probe) {
    for (const penstock_device_info& device : machine.probe->devices) {
      if (device.stand_in == 0) text += gpu_row(platform, index++, device.name, device.pci_address);
    }
  } else {
    for (const core::PciDevice* gpu : machine.nvidia_gpus()) {
      const std::string name = fmt::format("NVIDIA {:04x}:{:04x}", gpu->vendor, gpu->device);
      text += gpu_row(platform, index++, name, gpu->address);
    }
  }
  if (index > 0) return text;
  text += " No GPU was found";
  if (machine.probe && !machine.probe->devices.empty()) {
    text += ": host memory stands in for one (" + printable(machine.probe->device_reason) + ")";
  }
  return text + "\n";
}

std::string driver_status(const core::NvidiaDriver& driver) {
  if (!driver.is_loaded) return "Unsupported(no NVIDIA driver is loaded)";
  return driver.is_open ? "Supported(Nvidia Open Driver Installed)" : "Supported(Nvidia Proprietary Driver Installed)";
}

std::string platform_section(const GdsPlatform& platform) {
  const Machine& machine = platform.machine;
  const core::Platform& facts = machine.platform;
  std::string text = banner("PLATFORM INFO");
  const auto line = [&](std::string_view name, const std::string& value) {
    text += printable(fmt::format(" {}: {}", name, value)) + "\n";
  };
  line("IOMMU", iommu_text(machine.iommu));
  line("Nvidia Driver Info Status", driver_status(machine.nvidia));
  // Of a captured machine nobody can ask its driver.
  const char* no_version = machine.probe ? "none" : "unknown";
  line("Cuda Driver Version Installed",
       platform.cuda_version > 0 ? fmt::format("{}", platform.cuda_version) : no_version);
  line("Platform", fmt::format("{}, Arch: {}(Linux {})", facts.distribution.empty() ? "unknown" : facts.distribution,
                               facts.architecture, facts.kernel_release));
  const std::string obstacle = platform.obstacle();
  if (obstacle.empty()) return text + " Platform verification succeeded\n";
  line("Platform verification failed", obstacle);
  return text;
}

const char* served_by(const GdsPlatform& platform, const core::FileSystem& one) {
  const bool is_direct = is_usable(platform, PENSTOCK_PATH_P2PDMA) && one.device_pages.has == core::Tristate::yes;
  return is_direct ? "p2pdma" : has_compat(platform) ? "compat" : "Unsupported";
}

}  // namespace

std::string GdsPlatform::obstacle() const {
  if (loaded.must_refuse) return "the configuration cannot be understood; see the warnings above";
  for (const PathReport& report : paths) {
    for (const Need& need : report.needs) {
      const std::string_view code(need.code);
      if (need.met == core::Tristate::no && (code == "gpu" || code == "gpu_driver")) return need.text;
    }
  }
  if (has_compat(*this) || is_usable(*this, PENSTOCK_PATH_P2PDMA) || is_usable(*this, PENSTOCK_PATH_VENDOR)) return "";
  const PathReport* bounce = path_of(*this, PENSTOCK_PATH_BOUNCE);
  if (bounce != nullptr && !bounce->usable) {
    return "no path is usable; 'penstock check' tells why";
  }
  return "properties.allow_compat_mode is false, and no direct path is usable";
}

std::string version_lines(const GdsPlatform& platform) {
  const core::NvidiaFs& nvidia_fs = platform.machine.nvidia_fs;
  std::string version = nvidia_fs.is_loaded && !nvidia_fs.version.empty() ? nvidia_fs.version : "0.0";
  return fmt::format(
      " GDS release version: {}\n nvidia_fs version: {}  libcufile version: {}\n Platform: {}\n"
      " Library: Penstock {}, which serves that release's interface; nvidia_fs is {} and not used\n",
      kReleaseVersion, printable(version), kLibraryVersion, platform.machine.platform.architecture, penstock_version(),
      nvidia_fs.is_loaded ? "loaded" : "not loaded");
}

std::string platform_report(const GdsPlatform& platform) {
  return environment_section(platform) + driver_section(platform) + configuration_section(platform) +
         gpu_section(platform) + platform_section(platform);
}

std::string file_system_report(const GdsPlatform& platform) {
  std::string text = banner("FILE SYSTEMS");
  for (const core::FileSystem& one : platform.machine.file_systems) {
    text += row(one.mount.mount_point, fmt::format("{}, {}, O_DIRECT: {}", one.mount.type, served_by(platform, one),
                                                   core::tristate_name(one.direct_io.has)));
  }
  return text;
}

}  // namespace penstock::tools
