// SPDX-License-Identifier: Apache-2.0

#include "topology/platform.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <tuple>

#include "topology/mounts.h"
#include "topology/text.h"

namespace penstock::core {
namespace {

constexpr std::size_t kCpuInfoBytesMax = 8 << 20;
constexpr std::size_t kConfigBytesMax = 4 << 20;
constexpr std::size_t kIommuGroupsMax = 4096;
constexpr unsigned kCapabilityIpcLock = 14;

std::string unquoted(std::string_view text) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front()) {
    text = text.substr(1, text.size() - 2);
  }
  return std::string(text);
}

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// "6.18.44-generic" and "595.45.04": the first two numbers.
std::pair<int, int> first_two_numbers(std::string_view text) {
  const std::string_view major = take_until(text, '.');
  const std::size_t end = text.find_first_not_of("0123456789");
  const auto first = parse_number<int>(major);
  const auto second = parse_number<int>(text.substr(0, end));
  if (!first || !second) return {0, 0};
  return {*first, *second};
}

void read_processors(const Root& root, Platform& platform) {
  const std::string text = root.read("/proc/cpuinfo", kCpuInfoBytesMax).value_or(std::string());
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = take_until(rest, '\n');
    if (trim(take_until(line, ':')) == "processor") ++platform.cpu_count;
  }
  platform.cpu_vendor = std::string(value_of(text, "vendor_id", ':'));
  platform.cpu_model = std::string(value_of(text, "model name", ':'));
  platform.cpu_family = parse_number<int>(value_of(text, "cpu family", ':')).value_or(0);
  if (platform.cpu_model.empty() && !value_of(text, "CPU part", ':').empty()) {
    platform.cpu_model = "ARM part " + std::string(value_of(text, "CPU part", ':'));
  }
  const std::vector<std::string_view> flags = split(value_of(text, "flags", ':'), ' ');
  platform.is_virtual_machine = std::find(flags.begin(), flags.end(), "hypervisor") != flags.end();
}

// /proc/sys/kernel/arch came with Linux 6.1.
std::string read_architecture(const Root& root, const Platform& platform) {
  std::string architecture = root.read_line("/proc/sys/kernel/arch");
  utsname names;
  if (architecture.empty() && root.is_machine() && ::uname(&names) == 0) architecture = names.machine;
  if (architecture.empty() && !platform.cpu_vendor.empty()) architecture = "x86_64";
  if (architecture.empty() && platform.cpu_model.starts_with("ARM")) architecture = "aarch64";
  return architecture;
}

std::uint64_t read_page_bytes(const Root& root) {
  if (root.is_machine()) return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::string maps = root.read("/proc/self/smaps").value_or(std::string());
  std::string_view value = value_of(maps, "KernelPageSize", ':');
  return parse_number<std::uint64_t>(take_until(value, ' ')).value_or(0) * 1024;
}

struct ContainerSign {
  const char* kind;
  const char* word;
};
constexpr ContainerSign kCgroupSigns[] = {
    {"kubernetes", "kubepods"}, {"docker", "docker"}, {"podman", "libpod"}, {"lxc", "/lxc"}, {"other", "containerd"}};

void read_container(const Root& root, Platform& platform) {
  const auto found = [&](const char* kind, const char* evidence) {
    platform.container = kind;
    platform.container_evidence = evidence;
  };
  if (root.exists("/run/secrets/kubernetes.io")) return found("kubernetes", "/run/secrets/kubernetes.io");
  if (root.exists("/run/.containerenv")) return found("podman", "/run/.containerenv");
  if (root.exists("/.dockerenv")) return found("docker", "/.dockerenv");
  const std::string groups = root.read("/proc/self/cgroup").value_or(std::string());
  for (const ContainerSign& sign : kCgroupSigns) {
    if (groups.find(sign.word) != std::string::npos) return found(sign.kind, "/proc/self/cgroup");
  }
  // An overlay as root may also be a live or image-based system, but such a system has a service manager as its init.
  const MountTable mounts = MountTable::read(root);
  const Mount* top = mounts.find("/");
  if (top != nullptr && top->type == "overlay" && root.read_line("/proc/1/comm") != "systemd") {
    found("other", "the root is an overlay");
  }
}

void read_virtual_machine(const Root& root, Platform& platform) {
  const std::string vendor = root.read_line("/sys/class/dmi/id/sys_vendor");
  const std::string product = root.read_line("/sys/class/dmi/id/product_name");
  constexpr const char* kVendors[] = {"QEMU",      "VMware",    "Amazon EC2",   "Google",        "innotek", "Xen",
                                      "Parallels", "OpenStack", "DigitalOcean", "Alibaba Cloud", "Bochs"};
  const bool is_known = std::any_of(std::begin(kVendors), std::end(kVendors),
                                    [&](const char* name) { return vendor.starts_with(name); }) ||
                        product.find("Virtual Machine") != std::string::npos || root.exists("/sys/hypervisor/type");
  // Bare-metal instances carry a cloud's name too, so the processor decides if it is known.
  if (platform.cpu_vendor.empty()) platform.is_virtual_machine = is_known;
  if (!platform.is_virtual_machine) return;
  platform.virtual_machine = product.starts_with(vendor) ? product : std::string(trim(vendor + " " + product));
}

struct GpuRecord {
  std::string model;
  std::optional<unsigned> minor;
};

std::vector<GpuRecord> read_gpu_records(const Root& root) {
  std::vector<GpuRecord> records;
  for (const std::string& gpu : root.list("/proc/driver/nvidia/gpus")) {
    const std::string text = root.read("/proc/driver/nvidia/gpus/" + gpu + "/information").value_or(std::string());
    records.push_back(
        {std::string(value_of(text, "Model", ':')), parse_number<unsigned>(value_of(text, "Device Minor", ':'))});
  }
  return records;
}

// Without a /dev, as in a container that has only the host's /proc and /sys, the driver shows the numbers of its GPUs.
std::vector<std::string> nvidia_nodes(const Root& root, const std::vector<GpuRecord>& gpus) {
  std::vector<std::string> nodes;
  for (const std::string& node : root.list("/dev")) {
    if (node.starts_with("nvidia")) nodes.push_back(node);
  }
  if (root.exists("/dev")) return nodes;
  for (const GpuRecord& gpu : gpus) {
    if (gpu.minor) nodes.push_back("nvidia" + std::to_string(*gpu.minor));
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace

Platform read_platform(const Root& root) {
  Platform platform;
  platform.kernel_release = root.read_line("/proc/sys/kernel/osrelease");
  std::tie(platform.kernel.major, platform.kernel.minor) = first_two_numbers(platform.kernel_release);
  std::string release = root.read("/etc/os-release").value_or(std::string());
  if (release.empty()) release = root.read("/usr/lib/os-release").value_or(std::string());
  platform.distribution = unquoted(value_of(release, "PRETTY_NAME", '='));
  platform.distribution_id = unquoted(value_of(release, "ID", '='));
  read_processors(root, platform);
  platform.architecture = read_architecture(root, platform);
  const std::string memory = root.read("/proc/meminfo").value_or(std::string());
  std::string_view total = value_of(memory, "MemTotal", ':');
  platform.memory_bytes = parse_number<std::uint64_t>(take_until(total, ' ')).value_or(0) * 1024;
  platform.page_bytes = read_page_bytes(root);
  read_container(root, platform);
  read_virtual_machine(root, platform);
  const std::string lower = lower_case(platform.kernel_release);
  platform.is_wsl = lower.find("microsoft") != std::string::npos || lower.find("wsl2") != std::string::npos;
  return platform;
}

std::optional<int> read_io_uring_disabled(const Root& root) {
  const auto value = root.read_number("/proc/sys/kernel/io_uring_disabled");
  if (!value || *value < 0 || *value > 2) return std::nullopt;
  return static_cast<int>(*value);
}

std::optional<LockedMemoryLimit> read_locked_memory_limit(const Root& root) {
  constexpr std::string_view kTitle = "Max locked memory";
  const std::string text = root.read("/proc/self/limits").value_or(std::string());
  const std::size_t found = text.find(kTitle);
  if (found == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(text).substr(found + kTitle.size());
  const std::vector<std::string_view> words = split(take_until(rest, '\n'), ' ');
  if (words.size() < 2) return std::nullopt;
  const auto bytes = [](std::string_view word) {
    return word == "unlimited" ? std::optional(kUnlimited) : parse_number<std::uint64_t>(word);
  };
  const auto soft = bytes(words[0]);
  const auto hard = bytes(words[1]);
  if (!soft || !hard) return std::nullopt;
  const std::string status = root.read("/proc/self/status").value_or(std::string());
  const auto capabilities = parse_number<std::uint64_t>(value_of(status, "CapEff", ':'), 16);
  return LockedMemoryLimit{*soft, *hard, (capabilities.value_or(0) >> kCapabilityIpcLock & 1) != 0};
}

Tristate kernel_has_p2pdma(const Root& root) {
  if (root.contains(kKernelSymbolsFile, kP2pdmaSigns, kKernelSymbolsBytesMax)) return Tristate::yes;
  return kernel_has_p2pdma(root, {.has_functions = lists_functions(root)});
}

Tristate kernel_has_p2pdma(const Root& root, const KernelSymbols& symbols) {
  if (symbols.has_p2pdma) return Tristate::yes;
  if (symbols.has_functions == Tristate::yes) return Tristate::no;
  const std::string release = root.read_line("/proc/sys/kernel/osrelease");
  if (release.empty() || release.find('/') != std::string::npos) return Tristate::unknown;
  const std::string config = root.read("/boot/config-" + release, kConfigBytesMax).value_or(std::string());
  if (config.find("CONFIG_PCI_P2PDMA=y") != std::string::npos) return Tristate::yes;
  return config.find("CONFIG_PCI") != std::string::npos ? Tristate::no : Tristate::unknown;
}

const char* iommu_mode_name(IommuMode mode) {
  switch (mode) {
    case IommuMode::off: return "off";
    case IommuMode::passthrough: return "passthrough";
    case IommuMode::translating: return "translating";
    case IommuMode::unknown: return "unknown";
  }
  return "unknown";
}

Iommu read_iommu(const Root& root) {
  Iommu iommu;
  const std::string command_line = root.read_line("/proc/cmdline");
  for (const std::string_view word : split(command_line, ' ')) {
    if (word.find("iommu") != std::string_view::npos || word.find("acs") != std::string_view::npos) {
      iommu.command_line_words.emplace_back(word);
    }
  }
  iommu.units = root.list("/sys/class/iommu");
  std::vector<std::string> groups = root.list("/sys/kernel/iommu_groups");
  if (groups.size() > kIommuGroupsMax) groups.resize(kIommuGroupsMax);
  for (const std::string& group : groups) {
    const std::string type = root.read_line("/sys/kernel/iommu_groups/" + group + "/type");
    if (type == "identity") {
      ++iommu.identity_groups;
      if (const auto number = parse_number<int>(group)) iommu.identity_group_numbers.push_back(*number);
    }
    if (type.starts_with("DMA")) ++iommu.translated_groups;
  }
  std::sort(iommu.identity_group_numbers.begin(), iommu.identity_group_numbers.end());
  if (iommu.translated_groups > 0) {
    iommu.mode = IommuMode::translating;
  } else if (iommu.identity_groups > 0) {
    iommu.mode = IommuMode::passthrough;
  } else if (!iommu.units.empty() || !groups.empty()) {
    iommu.mode = IommuMode::unknown;
  }
  return iommu;
}

NvidiaDriver read_nvidia_driver(const Root& root) {
  NvidiaDriver driver;
  const std::string banner = root.read_line("/proc/driver/nvidia/version");
  driver.is_loaded = !banner.empty() || root.exists("/sys/module/nvidia");
  driver.is_open = banner.find("Open Kernel Module") != std::string::npos;
  driver.version_text = root.read_line("/sys/module/nvidia/version");
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module 535.161.07 Sat Feb ...": the first word that looks like a version.
  for (const std::string_view word : split(banner, ' ')) {
    if (driver.version_text.empty() && first_two_numbers(word).first >= 100) driver.version_text = std::string(word);
  }
  std::tie(driver.version.major, driver.version.minor) = first_two_numbers(driver.version_text);

  const std::string parameters = root.read("/proc/driver/nvidia/params").value_or(std::string());
  driver.has_parameters = !parameters.empty();
  driver.registry_dwords = unquoted(value_of(parameters, "RegistryDwords", ':'));
  for (std::string_view entry : split(driver.registry_dwords, ';')) {
    const std::string key = lower_case(std::string(trim(take_until(entry, '='))));
    std::string_view value = trim(entry);
    const bool is_hex = value.starts_with("0x");
    const auto number = parse_number<int>(is_hex ? value.substr(2) : value, is_hex ? 16 : 10);
    if (key == "rmforcestaticbar1") driver.static_bar1 = number;
    if (key == "rmforcedisableiomapwc") driver.write_combining_off = number;
  }
  driver.has_uvm = root.exists("/sys/module/nvidia_uvm");
  const std::vector<GpuRecord> gpus = read_gpu_records(root);
  driver.device_nodes = nvidia_nodes(root, gpus);
  for (const GpuRecord& gpu : gpus) {
    if (!gpu.model.empty()) driver.models.push_back(gpu.model);
  }
  return driver;
}

NvidiaFs read_nvidia_fs(const Root& root) {
  NvidiaFs nvidia_fs;
  const std::string version = root.read_line("/proc/driver/nvidia-fs/version");
  nvidia_fs.is_loaded = !version.empty() || root.exists("/sys/module/nvidia_fs");
  nvidia_fs.version = std::string(value_of(version, "version", ':'));
  nvidia_fs.module_version = root.read_line("/sys/module/nvidia_fs/version");
  if (nvidia_fs.module_version.empty()) nvidia_fs.module_version = nvidia_fs.version;
  const std::string modules = root.read("/proc/driver/nvidia-fs/modules").value_or(std::string());
  std::string_view rest = modules;
  while (!rest.empty() && nvidia_fs.storage_drivers.size() < 64) {
    std::string_view line = take_until(rest, '\n');
    const std::string_view name = trim(take_until(line, ':'));
    if (!name.empty()) nvidia_fs.storage_drivers.emplace_back(name);
  }
  return nvidia_fs;
}

}  // namespace penstock::core
