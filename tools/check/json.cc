// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <optional>

#include "tools/check/dma_buf.h"
#include "tools/check/placement.h"
#include "tools/check/report.h"
#include "tools/common/direct_answer.h"
#include "tools/common/peer_pairs.h"
#include "tools/common/served.h"

namespace penstock::tools {
namespace {

using core::PciDevice;
using core::Tristate;

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
  for (const DeviceInfo& device : probe->devices) {
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

}  // namespace

Json check_json(const Machine& machine, const std::vector<PathReport>& paths, const Requirement& required,
                bool usable) {
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
  json["dma_buf"] = dma_buf_json(machine);
  json["cufile"] = cufile_json(machine.cufile);
  json["settings"] = settings_json(machine.probe);
  json["paths"] = paths_json(paths);
  json["placement"] = placement_json(machine);
  json["usable"] = usable;
  if (required.what.empty()) json["required"] = nullptr;
  else json["required"] = {{"what", required.what}, {"met", required.is_met}};
  return json;
}

}  // namespace penstock::tools
