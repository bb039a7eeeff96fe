// SPDX-License-Identifier: Apache-2.0

#include "tools/gdscheck/report.h"

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
constexpr const char* kPenstocksMemory = "may be tried for memory that Penstock allocated";

std::string banner(const std::string& title) {
  const std::string line(title.size() + 1, '=');
  return fmt::format(" {}\n {}:\n {}\n", line, title, line);
}

std::string row(std::string_view name, std::string_view value) {
  return printable(fmt::format(" {:<20} : {}", name, value)) + "\n";
}

bool has_compat(const GdsPlatform& platform) {
  return is_usable(platform.paths, PENSTOCK_PATH_BOUNCE) && allows_compat(platform.machine.cufile);
}

// Whether this path may serve any place that `is_meant`.
template <typename Place>
bool may_serve(const GdsPlatform& platform, int path, Place is_meant) {
  return std::any_of(platform.places.begin(), platform.places.end(), [&](const Served& place) {
    return place.by(path) && is_meant(*place.file_system) && allows_direct(platform.machine.cufile, place);
  });
}
bool may_serve(const GdsPlatform& platform, int path) {
  return may_serve(platform, path, [](const core::FileSystem&) { return true; });
}

bool may_serve_by_nvidia_fs(const GdsPlatform& platform) {
  return may_serve(platform, PENSTOCK_PATH_NVFS) || may_serve(platform, PENSTOCK_PATH_VENDOR);
}

std::string with_comma(std::string list, const char* word) { return list + (list.empty() ? "" : ", ") + word; }

// ---- Driver configuration

std::string ways_of(const GdsPlatform& platform, const StorageKind& kind) {
  std::string ways;
  const bool is_registered = may_use_nvidia_fs(platform.machine, platform.paths, kind);
  if (is_registered && allows_direct(platform.machine.cufile)) ways = with_comma(ways, "nvfs");
  const auto is_it = [&](const core::FileSystem& one) { return is_of_kind(one, kind); };
  if (may_serve(platform, PENSTOCK_PATH_P2PDMA, is_it)) ways = with_comma(ways, "p2pdma");
  if (has_compat(platform)) ways = with_comma(ways, "compat");
  return ways.empty() ? "Unsupported" : ways;
}

std::string driver_section(const GdsPlatform& platform) {
  std::string text = banner("DRIVER CONFIGURATION");
  for (const StorageKind& kind : storage_kinds()) text += row(kind.name, ways_of(platform, kind));
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
  const std::string& file = platform.machine.cufile.file;
  text += row("Configuration file", file.empty() ? "none; the defaults hold" : file);
  return text;
}

std::string configuration_section(const GdsPlatform& platform) {
  std::string text = banner("CUFILE CONFIGURATION");
  const core::LoadedSettings& loaded = platform.machine.cufile;
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

// A path "may be tried" where nothing is known against it. Programs of cuFile bring memory of their own, which
// nvidia-fs can offer to storage and p2pdma cannot, so the latter alone is no support of theirs.
std::string support_text(const GdsPlatform& platform, std::string_view address) {
  const std::vector<PeerPair> pairs = peer_pairs(platform.machine);
  const auto is_its = [&](const PeerPair& pair) {
    return pair.peer->address == address && may_be_tried(platform.machine, pair);
  };
  std::string text = may_serve_by_nvidia_fs(platform) ? "supports GDS (nvfs may be tried)"
                     : has_compat(platform)           ? "served in compat mode, no direct path"
                                                      : "not supported";
  if (may_serve(platform, PENSTOCK_PATH_P2PDMA) && std::any_of(pairs.begin(), pairs.end(), is_its)) {
    text += std::string("; p2pdma ") + kPenstocksMemory;
  }
  return text;
}

std::string gpu_row(const GdsPlatform& platform, std::size_t index, std::string_view name, std::string_view address) {
  return printable(fmt::format(" GPU index {} {} {} {}, IOMMU State: {}", index, name,
                               bar_text(platform.machine, address), support_text(platform, address),
                               iommu_text(platform.machine.iommu))) +
         "\n";
}

std::string gpu_section(const GdsPlatform& platform) {
  const Machine& machine = platform.machine;
  std::string text = banner("GPU INFO");
  std::size_t index = 0;
  if (machine.probe) {
    for (const DeviceInfo& device : machine.probe->devices) {
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

// What a reader would take "succeeded" to promise, and is not so.
std::string reservation(const GdsPlatform& platform) {
  if (may_serve_by_nvidia_fs(platform)) return "";
  const bool has_p2pdma = may_serve(platform, PENSTOCK_PATH_P2PDMA);
  return has_p2pdma ? fmt::format(" (compat; p2pdma {})", kPenstocksMemory) : " (compat only)";
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
  if (obstacle.empty()) return text + " Platform verification succeeded" + reservation(platform) + "\n";
  line("Platform verification failed", obstacle);
  return text;
}

std::string ways_of(const GdsPlatform& platform, const Served& place) {
  std::string ways;
  const bool direct = allows_direct(platform.machine.cufile, place);
  if (direct && (place.by(PENSTOCK_PATH_NVFS) || place.by(PENSTOCK_PATH_VENDOR))) ways = with_comma(ways, "nvfs");
  if (direct && place.by(PENSTOCK_PATH_P2PDMA)) ways = with_comma(ways, "p2pdma");
  if (has_compat(platform)) ways = with_comma(ways, "compat");
  return ways.empty() ? "Unsupported" : ways;
}

// Whether nvidia-fs is used is for the paths by it to say: NVIDIA's library's, and ours.
std::string nvidia_fs_text(const GdsPlatform& platform) {
  if (!platform.machine.nvidia_fs.is_loaded) return "not loaded";
  if (is_usable(platform.paths, PENSTOCK_PATH_NVFS) || is_usable(platform.paths, PENSTOCK_PATH_VENDOR)) {
    return "loaded; used where its self-test says that it is direct";
  }
  for (const PathReport& report : platform.paths) {
    if (report.path != PENSTOCK_PATH_VENDOR) continue;
    return fmt::format("loaded and not used: {}", penstock_reason_sentence(report.reason));
  }
  return "loaded and not used";
}

}  // namespace

std::string GdsPlatform::obstacle() const {
  if (machine.cufile.must_refuse) return "the configuration cannot be understood; see the warnings above";
  for (const PathReport& report : paths) {
    for (const Need& need : report.needs) {
      const std::string_view code(need.code);
      if (need.met == core::Tristate::no && (code == "gpu" || code == "gpu_driver")) return need.text;
    }
  }
  if (has_compat(*this) || may_serve(*this, PENSTOCK_PATH_P2PDMA) || may_serve_by_nvidia_fs(*this)) return "";
  if (!is_usable(paths, PENSTOCK_PATH_BOUNCE)) return "no path is usable; 'penstock check' tells why";
  return "properties.allow_compat_mode is false, and no direct path is usable";
}

std::string version_lines(const GdsPlatform& platform) {
  const core::NvidiaFs& nvidia_fs = platform.machine.nvidia_fs;
  std::string version = nvidia_fs.is_loaded && !nvidia_fs.version.empty() ? nvidia_fs.version : "0.0";
  return fmt::format(
      " GDS release version: {}\n nvidia_fs version: {}  libcufile version: {}\n Platform: {}\n"
      " Library: Penstock {}, which serves that release's interface; nvidia_fs is {}\n",
      kReleaseVersion, printable(version), kLibraryVersion, platform.machine.platform.architecture, penstock_version(),
      nvidia_fs_text(platform));
}

std::string platform_report(const GdsPlatform& platform) {
  return environment_section(platform) + driver_section(platform) + configuration_section(platform) +
         gpu_section(platform) + platform_section(platform);
}

std::string file_system_report(const GdsPlatform& platform) {
  std::string text = banner("FILE SYSTEMS");
  for (const Served& place : platform.places) {
    const core::FileSystem& one = *place.file_system;
    text += row(one.mount.mount_point, fmt::format("{}, {}, O_DIRECT: {}", one.mount.type, ways_of(platform, place),
                                                   core::tristate_name(one.direct_io.has)));
  }
  return text;
}

}  // namespace penstock::tools
