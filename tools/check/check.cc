// SPDX-License-Identifier: Apache-2.0

// `penstock check [--root DIR] [--json]`. Exit code 0: the bounce path is usable. 1: it is not, or the environment's
// settings or cuFile's configuration make no sense. 2: wrong usage.
//
// The JSON document, whose keys and codes are stable (new ones may come):
//   schema            1
//   version           of Penstock
//   root              the captured machine's directory, or null for this machine
//   platform          distribution, architecture, cpu_model, cpu_count, memory_bytes, page_bytes, container (null or
//                     {kind, evidence}), virtual_machine (null or a name, possibly ""), wsl
//   kernel            release, p2pdma ("yes", "no", "unknown")
//   gpus[]            pci_address, vendor, device (PCI ids), driver, numa_node, link {speed_gts, width, speed_gts_max,
//                     width_max}, host_bridge, iommu_group, peer_memory_bytes (null where the kernel has none of it)
//   nvidia            loaded, version, open, registry_dwords, uvm, nodes[]; null where there is no driver
//   nvidia_fs         loaded, version, storage_drivers[]
//   device            null with --root; else kind ("cuda", "host"), reason, devices[] {ordinal, name,
//                     pci_address, memory_bytes, stand_in}
//   file_systems[]    mount_point, type, source, read_only, more_mounts, direct_io {state, code, because},
//                     device_pages {state, code, because}, stack (null or a device: name, disk, kind, transport,
//                     multipath, dm_type, md_level, pci_address, model, numa_node, logical_block_size, rotational,
//                     below[]), paths[] (of p2pdma, vendor and bounce, those that may serve it: a direct one's
//                     self-test decides)
//   pairs[]           of device memory and file system: peer, mount_point, storage (a disk or null), reads, writes
//                     (whether p2pdma may be tried: only its self-test proves it), obstacles[], write_obstacles[]
//                     {code, effect ("refused", "copied", "part_copied", "astray", "slower"), certainty ("certain",
//                     "possible"), subject, sentence, remedy}
//   iommu             mode ("off", "passthrough", "translating", "unknown"), units[], command_line[]
//   io_uring          allowed (null with --root where unknown), sysctl (null or 0..2), errno (null with --root)
//   locked_memory     soft_bytes, hard_bytes (null: unlimited), exempt (CAP_IPC_LOCK); null where unknown
//   paths[]           best first: path, usable (p2pdma: nothing is known that forbids a try), reason, sentence, remedy,
//                     needs[] {code, state ("ok", "missing", "unknown"), text, remedy}; p2pdma's needs are the
//                     obstacles of the pair that is best off
//   cufile            cuFile's configuration: file (null where there is none), refused (whether it keeps cuFile's
//   driver
//                     closed), notes[] {severity, text}
//   settings          null with --root; else in_force {name: value}, unknown[] (PENSTOCK_... names that nothing reads),
//                     error (why no session opens with them, or null)
//   usable            the exit code as a truth: the bounce path is usable, and the settings are, cuFile's as well
#include "tools/check/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/machine.h"
#include "tools/common/page.h"
#include "tools/common/path_reports.h"
#include "tools/common/peer_pairs.h"
#include "tools/common/served.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

using core::BlockDevice;
using core::PciDevice;
using core::Tristate;

constexpr std::size_t kFileSystemRowsMax = 40;  // For people; JSON has them all.

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock check                      this machine\n"
    "  penstock check --json               the same for a program\n"
    "  penstock check --root captured/     a machine captured with scripts/capture-machine, unpacked\n"
    "Exit code: 0 if the bounce path is usable, 1 if it is not or the settings (of the environment, of cufile.json)\n"
    "make no sense, 2 wrong usage.";

struct CheckSettings {
  std::string root;  // A captured machine; "" for this one.
  bool json = false;
};

const char* state_name(Tristate met) {
  return met == Tristate::yes ? "ok" : met == Tristate::no ? "missing" : "unknown";
}

// ---- For people ----------------------------------------------------------------------------------------------------

std::string stack_text(const BlockDevice& device) {
  std::string text = device.name;
  std::string facts = core::block_kind_name(device.kind);
  const auto add = [&](const std::string& fact) {
    if (!fact.empty()) facts += " " + fact;
  };
  add(core::nvme_transport_name(device.transport));
  add(device.is_multipath ? "multipath" : "");
  add(device.dm_type);
  add(device.md_level);
  add(device.pci_address);
  text += " (" + facts + ")";
  for (std::size_t i = 0; i < device.slaves.size(); ++i) {
    text += (i == 0 ? " > " : ", ") + stack_text(device.slaves[i]);
  }
  return text;
}

void print_platform(Page& page, const Machine& machine) {
  const core::Platform& platform = machine.platform;
  const auto known = [](const std::string& text) { return text.empty() ? std::string("unknown") : text; };
  page.section("Platform");
  page.row("system", known(platform.distribution) + ", " + known(platform.architecture));
  page.row("processor", fmt::format("{}, {} CPU{}", known(platform.cpu_model), platform.cpu_count,
                                    platform.cpu_count == 1 ? "" : "s"));
  page.row("memory",
           fmt::format("{}, pages of {}", bytes_text(platform.memory_bytes), bytes_text(platform.page_bytes)));
  std::string place = platform.is_virtual_machine ? "a virtual machine" : "no virtual machine";
  if (platform.is_virtual_machine && !platform.virtual_machine.empty()) place += " (" + platform.virtual_machine + ")";
  if (platform.is_wsl) place += ", Windows Subsystem for Linux";
  place += platform.container.empty()
               ? ", no container"
               : fmt::format(", a container ({}, by {})", platform.container, platform.container_evidence);
  page.row("runs in", place);

  page.section("Kernel");
  page.row("release", known(platform.kernel_release));
  page.row("PCI P2PDMA", core::tristate_name(machine.p2pdma));
}

void print_gpus(Page& page, const Machine& machine) {
  page.section("GPUs and driver");
  bool has_any = false;
  for (const PciDevice& gpu : machine.pci) {
    if (!gpu.is_gpu()) continue;
    has_any = true;
    page.row("GPU", fmt::format("{}, {} {:04x}:{:04x}, driver {}, PCIe {} GT/s x{}, NUMA node {}", gpu.address,
                                gpu.is_nvidia_gpu() ? "NVIDIA" : "AMD", gpu.vendor, gpu.device,
                                gpu.driver.empty() ? "none" : gpu.driver, gpu.current_link.gigatransfers_per_second,
                                gpu.current_link.width, gpu.numa_node));
  }
  if (!has_any) page.row("GPU", "none on the PCI bus");
  const core::NvidiaDriver& driver = machine.nvidia;
  std::string text = "not loaded";
  if (driver.is_loaded) {
    text = (driver.version_text.empty() ? "of unknown version" : driver.version_text) +
           std::string(driver.is_open ? ", open kernel modules" : "");
    if (!driver.registry_dwords.empty()) text += ", " + driver.registry_dwords;
  }
  page.row("NVIDIA driver", text);
  page.row("nvidia-fs", machine.nvidia_fs.is_loaded ? machine.nvidia_fs.version : "not loaded");
  if (!machine.probe) return;
  page.row("CUDA", machine.probe->cuda_devices() > 0 ? "works" : "not usable: " + machine.probe->device_reason);
  for (const penstock_device_info& device : machine.probe->devices) {
    page.row(fmt::format("device {}", device.ordinal),
             device.stand_in != 0
                 ? std::string("host memory standing in for a GPU")
                 : fmt::format("{}, {}, {}", device.name, device.pci_address, bytes_text(device.memory_bytes)));
  }
}

void print_file_systems(Page& page, const Machine& machine) {
  page.section("File systems");
  constexpr const char* kRow = "  {:<26} {:<8} {:<11} {:<13} ";
  page.wrap(fmt::format(kRow, "mounted on", "type", "direct I/O", "device pages"), "block device");
  std::size_t rows = 0;
  for (const core::FileSystem& one : machine.file_systems) {
    if (++rows > kFileSystemRowsMax) {
      page.wrap("  ", fmt::format("and {} more; --json lists them", machine.file_systems.size() - kFileSystemRowsMax));
      break;
    }
    std::string place = one.stack ? stack_text(*one.stack) : std::string(one.device_pages.because);
    if (one.more_mounts > 0)
      place += fmt::format(", {} more mount{}", one.more_mounts, one.more_mounts == 1 ? "" : "s");
    page.wrap(fmt::format(kRow, cut(one.mount.mount_point, 26), cut(one.mount.type, 8),
                          core::tristate_name(one.direct_io.has), core::tristate_name(one.device_pages.has)),
              place);
  }
  if (rows == 0) page.wrap("  ", "none to be seen");
}

void print_limits(Page& page, const Machine& machine) {
  page.section("IOMMU, io_uring, locked memory");
  std::string iommu = core::iommu_mode_name(machine.iommu.mode);
  for (const std::string& word : machine.iommu.command_line_words) iommu += ", " + word;
  page.row("IOMMU", iommu);
  page.row("io_uring", need_io_uring(machine).text);
  page.row("locked memory", machine.locked_memory ? bytes_text(machine.locked_memory->soft_bytes) + " (hard limit " +
                                                        bytes_text(machine.locked_memory->hard_bytes) + ")"
                                                  : "unknown");
}

void print_path(Page& page, const PathReport& report) {
  const bool is_tried = report.path == PENSTOCK_PATH_P2PDMA || report.path == PENSTOCK_PATH_VENDOR;
  std::string headline = !report.usable ? "not usable" : is_tried ? "may be tried: its self-test decides" : "usable";
  if (report.reason != PENSTOCK_REASON_NONE) {
    headline += fmt::format(" ({}): {}", penstock_reason_name(report.reason), penstock_reason_sentence(report.reason));
  }
  page.wrap(fmt::format("  {:<10} ", penstock_path_name(report.path)), headline);
  for (const Need& need : report.needs) {
    page.wrap(fmt::format("    {:<8} {:<18} ", state_name(need.met), need.code), need.text);
    if (need.met != Tristate::yes && !need.remedy.empty()) page.wrap("             -> ", need.remedy);
    // Nothing else helps where there is no GPU; --json has the rest.
    if (need.met == Tristate::no && std::string_view(need.code) == "gpu") break;
  }
}

void print_environment(Page& page, const Probe& probe) {
  const EnvironmentSettings& settings = probe.environment;
  if (settings.known.empty() && settings.unknown.empty() && probe.environment_error.empty()) return;
  page.section("Settings of the environment");
  for (const auto& [name, value] : settings.known) page.row(name + " ", value);
  for (const auto& [name, value] : settings.unknown) {
    const std::string nearest = nearest_setting(name);
    page.wrap("  ", fmt::format("{} is no setting of Penstock's, and without effect{}", name,
                                nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }
  if (!probe.environment_error.empty()) page.wrap("  ", "no session opens with these: " + probe.environment_error);
}

void print_cufile(Page& page, const core::LoadedSettings& cufile) {
  if (cufile.file.empty() && cufile.notes.empty()) return;
  page.section("cuFile's configuration");
  if (!cufile.file.empty()) page.row("file", cufile.file);
  for (const core::Note& note : cufile.notes) page.wrap("  ", core::describe(note));
  if (cufile.must_refuse) page.wrap("  ", "cuFile's driver does not open with these errors: correct them");
}

std::string print_text(const Machine& machine, const std::vector<PathReport>& paths) {
  Page page;
  page.wrap("", fmt::format("Penstock {}: {}", penstock_version(),
                            machine.root.empty() ? "this machine" : "the captured machine in " + machine.root));
  print_platform(page, machine);
  print_gpus(page, machine);
  print_file_systems(page, machine);
  const std::vector<PeerPair> pairs = peer_pairs(machine);
  print_pairs(page, machine, pairs);
  print_limits(page, machine);
  if (machine.probe) print_environment(page, *machine.probe);
  print_cufile(page, machine.cufile);
  page.section("Paths, best first");
  for (const PathReport& report : paths) print_path(page, report);
  return page.text();
}

// ---- For programs --------------------------------------------------------------------------------------------------

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json platform_json(const core::Platform& platform) {
  Json json = {{"distribution", platform.distribution},
               {"architecture", platform.architecture},
               {"cpu_model", platform.cpu_model},
               {"cpu_count", platform.cpu_count},
               {"memory_bytes", platform.memory_bytes},
               {"page_bytes", platform.page_bytes},
               {"container", nullptr},
               {"virtual_machine", nullptr},
               {"wsl", platform.is_wsl}};
  if (!platform.container.empty()) {
    json["container"] = {{"kind", platform.container}, {"evidence", platform.container_evidence}};
  }
  if (platform.is_virtual_machine) json["virtual_machine"] = platform.virtual_machine;
  return json;
}

Json gpus_json(const Machine& machine) {
  Json list = Json::array();
  for (const PciDevice& gpu : machine.pci) {
    if (!gpu.is_gpu()) continue;
    list.push_back({{"pci_address", gpu.address},
                    {"vendor", fmt::format("{:04x}", gpu.vendor)},
                    {"device", fmt::format("{:04x}", gpu.device)},
                    {"driver", gpu.driver},
                    {"numa_node", gpu.numa_node},
                    {"link",
                     {{"speed_gts", gpu.current_link.gigatransfers_per_second},
                      {"width", gpu.current_link.width},
                      {"speed_gts_max", gpu.max_link.gigatransfers_per_second},
                      {"width_max", gpu.max_link.width}}},
                    {"host_bridge", gpu.host_bridge},
                    {"iommu_group", gpu.iommu_group},
                    {"peer_memory_bytes", gpu.has_peer_memory ? Json(gpu.peer_memory_bytes) : Json(nullptr)}});
  }
  return list;
}

Json nvidia_json(const core::NvidiaDriver& driver) {
  if (!driver.is_loaded) return nullptr;
  return {{"loaded", true},         {"version", driver.version_text},
          {"open", driver.is_open}, {"registry_dwords", driver.registry_dwords},
          {"uvm", driver.has_uvm},  {"nodes", driver.device_nodes}};
}

Json probe_json(const std::optional<Probe>& probe) {
  if (!probe) return nullptr;
  Json devices = Json::array();
  for (const penstock_device_info& device : probe->devices) {
    devices.push_back({{"ordinal", device.ordinal},
                       {"name", device.name},
                       {"pci_address", device.pci_address},
                       {"memory_bytes", device.memory_bytes},
                       {"stand_in", device.stand_in != 0}});
  }
  return {{"kind", probe->device_kind}, {"reason", probe->device_reason}, {"devices", devices}};
}

Json settings_json(const std::optional<Probe>& probe) {
  if (!probe) return nullptr;
  Json in_force = Json::object(), unknown = Json::array();
  for (const auto& [name, value] : probe->environment.known) in_force[name] = value;
  for (const auto& [name, value] : probe->environment.unknown) unknown.push_back(name);
  const std::string& error = probe->environment_error;
  return {{"in_force", in_force}, {"unknown", unknown}, {"error", error.empty() ? Json(nullptr) : Json(error)}};
}

Json cufile_json(const core::LoadedSettings& cufile) {
  Json notes = Json::array();
  for (const core::Note& note : cufile.notes) {
    notes.push_back({{"severity", core::severity_name(note.severity)}, {"text", core::describe(note)}});
  }
  return {{"file", cufile.file.empty() ? Json(nullptr) : Json(cufile.file)},
          {"refused", cufile.must_refuse},
          {"notes", notes}};
}

Json stack_json(const BlockDevice& device) {
  Json below = Json::array();
  for (const BlockDevice& slave : device.slaves) below.push_back(stack_json(slave));
  return {{"name", device.name},
          {"disk", device.disk},
          {"kind", core::block_kind_name(device.kind)},
          {"transport", core::nvme_transport_name(device.transport)},
          {"multipath", device.is_multipath},
          {"dm_type", device.dm_type},
          {"md_level", device.md_level},
          {"pci_address", device.pci_address},
          {"model", device.model},
          {"numa_node", device.numa_node},
          {"logical_block_size", device.logical_block_size},
          {"rotational", device.is_rotational},
          {"below", below}};
}

Json names_json(const std::vector<int>& paths) {
  Json names = Json::array();
  for (const int path : paths) names.push_back(penstock_path_name(path));
  return names;
}

Json file_systems_json(const Machine& machine, const std::vector<PathReport>& paths) {
  Json list = Json::array();
  for (const Served& place : served_places(machine, paths)) {
    const core::FileSystem& one = *place.file_system;
    list.push_back({{"mount_point", one.mount.mount_point},
                    {"type", one.mount.type},
                    {"source", one.mount.source},
                    {"read_only", one.mount.options == "ro" || one.mount.options.starts_with("ro,")},
                    {"more_mounts", one.more_mounts},
                    {"direct_io",
                     {{"state", core::tristate_name(one.direct_io.has)},
                      {"code", one.direct_io.code},
                      {"because", one.direct_io.because}}},
                    {"device_pages",
                     {{"state", core::tristate_name(one.device_pages.has)},
                      {"code", one.device_pages.code},
                      {"because", one.device_pages.because}}},
                    {"stack", one.stack ? stack_json(*one.stack) : Json(nullptr)},
                    {"paths", names_json(place.paths)}});
  }
  return list;
}

Json io_uring_json(const Machine& machine) {
  const Need need = need_io_uring(machine);
  const Json allowed = need.met == Tristate::unknown ? Json(nullptr) : Json(need.met == Tristate::yes);
  return {{"allowed", allowed},
          {"sysctl", or_null(machine.io_uring_disabled)},
          {"errno", machine.probe ? Json(machine.probe->io_uring_error) : Json(nullptr)}};
}

Json locked_memory_json(const Machine& machine) {
  if (!machine.locked_memory) return nullptr;
  const auto limit = [](std::uint64_t bytes) { return bytes == core::kUnlimited ? Json(nullptr) : Json(bytes); };
  return {{"soft_bytes", limit(machine.locked_memory->soft_bytes)},
          {"hard_bytes", limit(machine.locked_memory->hard_bytes)},
          {"exempt", machine.locked_memory->is_exempt}};
}

Json paths_json(const std::vector<PathReport>& paths) {
  Json list = Json::array();
  for (const PathReport& report : paths) {
    Json needs = Json::array();
    for (const Need& need : report.needs) {
      needs.push_back(
          {{"code", need.code}, {"state", state_name(need.met)}, {"text", need.text}, {"remedy", need.remedy}});
    }
    list.push_back({{"path", penstock_path_name(report.path)},
                    {"usable", report.usable},
                    {"reason", penstock_reason_name(report.reason)},
                    {"sentence", penstock_reason_sentence(report.reason)},
                    {"remedy", penstock_reason_remedy(report.reason)},
                    {"needs", needs}});
  }
  return list;
}

std::string print_json(const Machine& machine, const std::vector<PathReport>& paths, bool usable) {
  Json json;
  json["schema"] = 1;
  json["version"] = penstock_version();
  json["root"] = machine.root.empty() ? Json(nullptr) : Json(machine.root);
  json["platform"] = platform_json(machine.platform);
  json["kernel"] = {{"release", machine.platform.kernel_release}, {"p2pdma", core::tristate_name(machine.p2pdma)}};
  json["gpus"] = gpus_json(machine);
  json["nvidia"] = nvidia_json(machine.nvidia);
  json["nvidia_fs"] = {{"loaded", machine.nvidia_fs.is_loaded},
                       {"version", machine.nvidia_fs.version},
                       {"storage_drivers", machine.nvidia_fs.storage_drivers}};
  json["device"] = probe_json(machine.probe);
  json["file_systems"] = file_systems_json(machine, paths);
  json["pairs"] = pairs_json(peer_pairs(machine));
  json["iommu"] = {{"mode", core::iommu_mode_name(machine.iommu.mode)},
                   {"units", machine.iommu.units},
                   {"command_line", machine.iommu.command_line_words}};
  json["io_uring"] = io_uring_json(machine);
  json["locked_memory"] = locked_memory_json(machine);
  json["cufile"] = cufile_json(machine.cufile);
  json["settings"] = settings_json(machine.probe);
  json["paths"] = paths_json(paths);
  json["usable"] = usable;
  // Names of files need not be UTF-8; JSON must be.
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

int run_check(const CheckSettings& settings) {
  const Machine machine = read_machine(open_machine_root(settings.root), settings.root);
  const std::vector<PathReport> paths = report_paths(machine);
  const bool can_open = !machine.cufile.must_refuse && (!machine.probe || machine.probe->environment_error.empty());
  const bool usable = can_open && is_usable(paths, PENSTOCK_PATH_BOUNCE);
  const std::string text = settings.json ? print_json(machine, paths, usable) : print_text(machine, paths);
  print("{}", Text(text));
  return usable ? kSuccess : kFailed;
}

}  // namespace

void add_check(CommandLine& command) {
  auto settings = std::make_shared<CheckSettings>();
  command.option("--root", settings->root, "Read the captured machine in DIR instead of this one").value_name("DIR");
  command.flag("--json", settings->json, "For programs");
  command.footer(kExamples);
  command.runs([settings] { return run_check(*settings); });
}

}  // namespace penstock::tools
