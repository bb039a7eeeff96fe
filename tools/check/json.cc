// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <optional>

#include "facts/near_adapters.h"
#include "facts/needs.h"
#include "tools/check/bus_tree.h"
#include "tools/check/dma_buf.h"
#include "tools/check/findings_page.h"
#include "tools/check/report.h"
#include "tools/common/direct_answer.h"
#include "tools/common/nvidia_fs_page.h"
#include "tools/common/outlook_page.h"
#include "tools/common/pairs_page.h"

namespace penstock::tools {
namespace {

using core::PciDevice;

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

Json gpus_json(const facts::Machine& machine) {
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

Json probe_json(const std::optional<facts::Probe>& probe) {
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

Json settings_json(const facts::Process& process) {
  Json in_force = Json::object(), unknown = Json::array();
  for (const auto& [name, value] : process.environment.known) in_force[name] = value;
  for (const auto& [name, value] : process.environment.unknown) unknown.push_back(name);
  return {{"in_force", in_force}, {"unknown", unknown}, {"error", or_null(process.error)}};
}

Json cufile_json(const core::LoadedSettings& cufile) {
  Json notes = Json::array();
  for (const core::Note& note : cufile.notes) {
    notes.push_back({{"severity", core::severity_name(note.severity)}, {"text", core::describe(note)}});
  }
  return {{"file", or_null(cufile.file)}, {"refused", cufile.must_refuse}, {"notes", notes}};
}

// The names of the usable paths that move bytes of device memory.
Json usable_names(const facts::Outlook& place) {
  Json names = Json::array();
  for (const facts::PathOutlook& path : place.paths) {
    const bool is_told = facts::is_direct_path(path.path) || path.path == PENSTOCK_PATH_BOUNCE;
    if (is_told && path.is_usable()) names.push_back(penstock_path_name(path.path));
  }
  return names;
}

Json file_systems_json(const facts::Examination& examined) {
  Json list = Json::array();
  for (const facts::Outlook& place : examined.places) {
    const core::FileSystem& one = *place.place;
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
                    {"paths", usable_names(place)},
                    {"outlook", outlook_json(place)}});
  }
  return list;
}

Json io_uring_json(const facts::Machine& machine) {
  const facts::Finding need = need_io_uring(machine);
  const Json allowed = need.state == facts::State::unknown ? Json(nullptr) : Json(need.state == facts::State::pass);
  return {{"allowed", allowed},
          {"sysctl", machine.io_uring_disabled ? Json(*machine.io_uring_disabled) : Json(nullptr)},
          {"errno", machine.probe ? Json(machine.probe->io_uring_error) : Json(nullptr)}};
}

Json locked_memory_json(const facts::Machine& machine) {
  if (!machine.locked_memory) return nullptr;
  const auto limit = [](std::uint64_t bytes) { return bytes == core::kUnlimited ? Json(nullptr) : Json(bytes); };
  return {{"soft_bytes", limit(machine.locked_memory->soft_bytes)},
          {"hard_bytes", limit(machine.locked_memory->hard_bytes)},
          {"exempt", machine.locked_memory->is_exempt}};
}

Json paths_json(const facts::Outlook& whole) {
  Json list = Json::array();
  for (const facts::PathOutlook& path : whole.paths) {
    Json needs = Json::array(), row = path_outlook_json(path);
    for (const facts::Finding& need : path.needs) {
      needs.push_back({{"code", need.code},
                       {"state", need_state_name(need)},
                       {"text", need.sentence},
                       {"remedy", need.state == facts::State::pass ? "" : need.remedy}});
    }
    row["needs"] = needs;
    list.push_back(row);
  }
  return list;
}

void add_places(const facts::Machine& machine, Json& json) {
  json["placement"] = placement_json(machine.pci);
  json["nearest_adapters"] = Json::array();
  for (const facts::NearAdapters& near : facts::nearest_adapters(machine)) {
    json["nearest_adapters"].push_back(
        {{"of", near.of->address}, {"adapters", near.names}, {"relation", core::distance_name(near.distance)}});
  }
}

}  // namespace

Json check_json(const facts::Examination& examined, const Requirement& required, bool usable, const Tries& tries) {
  const facts::Machine& machine = examined.machine;
  Json json;
  json["schema"] = 1;
  json["version"] = penstock_version();
  json["root"] = or_null(machine.root);
  json["platform"] = platform_json(machine.platform);
  json["kernel"] = {{"release", machine.platform.kernel_release}, {"p2pdma", core::tristate_name(machine.p2pdma)}};
  json["gpus"] = gpus_json(machine);
  json["nvidia"] = nvidia_json(machine.nvidia);
  json["nvidia_fs"] = {{"loaded", machine.nvidia_fs.is_loaded},
                       {"version", machine.nvidia_fs.version},
                       {"storage_drivers", machine.nvidia_fs.storage_drivers},
                       {"counted", nvidia_fs_json(machine.nvidia_fs_stats)}};
  json["device"] = probe_json(machine.probe);
  json["file_systems"] = file_systems_json(examined);
  json["pairs"] = pairs_json(examined);
  json["iommu"] = {{"mode", core::iommu_mode_name(machine.iommu.mode)},
                   {"units", machine.iommu.units},
                   {"command_line", machine.iommu.command_line_words}};
  json["io_uring"] = io_uring_json(machine);
  json["locked_memory"] = locked_memory_json(machine);
  json["dma_buf"] = dma_buf_json(machine);
  json["cufile"] = cufile_json(machine.process.cufile);
  json["settings"] = settings_json(machine.process);
  json["paths"] = paths_json(examined.whole);
  add_places(machine, json);
  facts::Findings findings = examined.findings;
  findings.insert(findings.end(), tries.findings.begin(), tries.findings.end());
  facts::settle_causes(findings);
  const Json report = validate::report_json(findings, tries.details, {}, machine.root);
  json["findings"] = report["rows"];
  json["counts"] = report["counts"];
  json["causes"] = report["causes"];
  for (const OdirectTry& one : tries.odirect) json["odirect"].push_back(one.document);
  json["usable"] = usable;
  if (required.what.empty()) json["required"] = nullptr;
  else json["required"] = {{"what", required.what}, {"met", required.is_met}};
  return json;
}

}  // namespace penstock::tools
