// SPDX-License-Identifier: Apache-2.0

#include "tools/gdscheck/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "facts/storage_kind.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

using core::Setting;
using core::SettingKind;

// The versions of cuFile that has this interface; the same numbers that cuFileGetVersion returns.
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

bool has_compat(const facts::Outlook& outlook) { return outlook.may_use(PENSTOCK_PATH_BOUNCE); }
bool has_p2pdma(const facts::Outlook& outlook) { return outlook.may_use(PENSTOCK_PATH_P2PDMA); }
bool has_nvidia_fs(const facts::Outlook& outlook) { return outlook.by_nvidia_fs().is_usable(); }

std::string with_comma(std::string list, const char* word) { return list + (list.empty() ? "" : ", ") + word; }

// ---- Driver configuration

std::string ways_text(bool nvfs, bool p2pdma, bool compat) {
  std::string ways;
  if (nvfs) ways = with_comma(ways, "nvfs");
  if (p2pdma) ways = with_comma(ways, "p2pdma");
  if (compat) ways = with_comma(ways, "compat");
  return ways.empty() ? "Unsupported" : ways;
}

std::string ways_of(const facts::Outlook& place) {
  return ways_text(has_nvidia_fs(place), has_p2pdma(place), has_compat(place));
}

// The paths that serve any mount of that kind. The path through host memory serves every kind.
std::string ways_of(const GdsPlatform& platform, const facts::StorageKind& kind) {
  bool nvfs = false, p2pdma = false;
  for (const facts::Outlook& place : platform.examined.places) {
    if (!is_of_kind(*place.place, kind)) continue;
    nvfs = nvfs || has_nvidia_fs(place);
    p2pdma = p2pdma || has_p2pdma(place);
  }
  return ways_text(nvfs, p2pdma, has_compat(platform.examined.whole));
}

std::string driver_section(const GdsPlatform& platform) {
  std::string text = banner("DRIVER CONFIGURATION");
  for (const facts::StorageKind& kind : facts::storage_kinds()) text += row(kind.name, ways_of(platform, kind));
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
  const std::string& file = platform.machine().process.cufile.file;
  text += row("Configuration file", file.empty() ? "none; the defaults hold" : file);
  return text;
}

std::string configuration_section(const GdsPlatform& platform) {
  std::string text = banner("CUFILE CONFIGURATION");
  const core::LoadedSettings& loaded = platform.machine().process.cufile;
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

std::string bar_text(const facts::Machine& machine, std::string_view address) {
  for (const facts::GpuBar& bar : machine.gpu_bars) {
    if (bar.pci_address == address) return fmt::format("bar:1 bar size (MiB):{}", bar.bytes >> 20);
  }
  return "bar:1 bar size (MiB):unknown";
}

// A path "may be tried" if nothing is known against it. Programs that use cuFile bring memory of their own, which
// nvidia-fs can offer to storage and p2pdma cannot, so p2pdma alone does not support them.
std::string support_text(const GdsPlatform& platform, std::string_view address) {
  const facts::Outlook& whole = platform.examined.whole;
  const std::vector<facts::PeerPair>& pairs = platform.examined.pairs;
  const auto may_use_it = [&](const facts::PeerPair& pair) {
    return pair.peer->address == address && platform.examined.by_p2pdma(pair).is_usable();
  };
  std::string text = has_nvidia_fs(whole) ? "supports GDS (nvfs may be tried)"
                     : has_compat(whole)  ? "served in compat mode, no direct path"
                                          : "not supported";
  if (has_p2pdma(whole) && std::any_of(pairs.begin(), pairs.end(), may_use_it)) {
    text += std::string("; p2pdma ") + kPenstocksMemory;
  }
  return text;
}

std::string gpu_row(const GdsPlatform& platform, std::size_t index, std::string_view name, std::string_view address) {
  return printable(fmt::format(" GPU index {} {} {} {}, IOMMU State: {}", index, name,
                               bar_text(platform.machine(), address), support_text(platform, address),
                               iommu_text(platform.machine().iommu))) +
         "\n";
}

std::string gpu_section(const GdsPlatform& platform) {
  const facts::Machine& machine = platform.machine();
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

// A line that says what "succeeded" does not promise here.
std::string reservation(const GdsPlatform& platform) {
  const facts::Outlook& whole = platform.examined.whole;
  if (has_nvidia_fs(whole)) return "";
  return has_p2pdma(whole) ? fmt::format(" (compat; p2pdma {})", kPenstocksMemory) : " (compat only)";
}

std::string platform_section(const GdsPlatform& platform) {
  const facts::Machine& machine = platform.machine();
  const core::Platform& facts = machine.platform;
  std::string text = banner("PLATFORM INFO");
  const auto line = [&](std::string_view name, const std::string& value) {
    text += printable(fmt::format(" {}: {}", name, value)) + "\n";
  };
  line("IOMMU", iommu_text(machine.iommu));
  line("Nvidia Driver Info Status", driver_status(machine.nvidia));
  // A captured machine's driver cannot be asked.
  const char* no_version = machine.probe ? "none" : "unknown";
  const int cuda = machine.probe ? machine.probe->cuda : 0;
  line("Cuda Driver Version Installed", cuda > 0 ? fmt::format("{}", cuda) : no_version);
  line("Platform", fmt::format("{}, Arch: {}(Linux {})", facts.distribution.empty() ? "unknown" : facts.distribution,
                               facts.architecture, facts.kernel_release));
  const std::string obstacle = platform.obstacle();
  if (obstacle.empty()) return text + " Platform verification succeeded" + reservation(platform) + "\n";
  line("Platform verification failed", obstacle);
  return text;
}

// The paths by nvidia-fs, Penstock's own and NVIDIA's library, show if it is used.
std::string nvidia_fs_text(const GdsPlatform& platform) {
  if (!platform.machine().nvidia_fs.is_loaded) return "not loaded";
  const facts::Outlook& whole = platform.examined.whole;
  if (whole.by_nvidia_fs().is_usable()) return "loaded; used where its self-test says that it is direct";
  return fmt::format("loaded and not used: {}", whole.sentence_by_nvidia_fs());
}

}  // namespace

std::string GdsPlatform::obstacle() const {
  if (machine().process.cufile.must_refuse) return "the configuration cannot be understood; see the warnings above";
  for (const facts::Finding& need : examined.whole.of(PENSTOCK_PATH_PAGECACHE).needs) {
    const std::string_view code = need.code;
    if (need.state == facts::State::fail && code != "file_system_pages") return need.sentence;  // There is no device.
  }
  if (examined.whole.first_usable() != nullptr) return "";
  if (examined.whole.of(PENSTOCK_PATH_BOUNCE).standing() == facts::Standing::closed) {
    return "no path is usable; 'penstock check' tells why";
  }
  return "properties.allow_compat_mode is false, and no direct path is usable";
}

std::string version_lines(const GdsPlatform& platform) {
  const core::NvidiaFs& nvidia_fs = platform.machine().nvidia_fs;
  std::string version = nvidia_fs.is_loaded && !nvidia_fs.version.empty() ? nvidia_fs.version : "0.0";
  return fmt::format(
      " GDS release version: {}\n nvidia_fs version: {}  libcufile version: {}\n Platform: {}\n"
      " Library: Penstock {}, which serves that release's interface; nvidia_fs is {}\n",
      kReleaseVersion, printable(version), kLibraryVersion, platform.machine().platform.architecture,
      penstock_version(), nvidia_fs_text(platform));
}

std::string platform_report(const GdsPlatform& platform) {
  return environment_section(platform) + driver_section(platform) + configuration_section(platform) +
         gpu_section(platform) + platform_section(platform);
}

std::string file_system_report(const GdsPlatform& platform) {
  std::string text = banner("FILE SYSTEMS");
  for (const facts::Outlook& place : platform.examined.places) {
    const core::FileSystem& one = *place.place;
    text += row(one.mount.mount_point, fmt::format("{}, {}, O_DIRECT: {}", one.mount.type, ways_of(place),
                                                   core::tristate_name(one.direct_io.has)));
  }
  return text;
}

}  // namespace penstock::tools
