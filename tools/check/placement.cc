// SPDX-License-Identifier: Apache-2.0

#include "tools/check/placement.h"

#include <fmt/format.h>

#include <vector>

#include "tools/common/pci_text.h"
#include "tools/common/table.h"
#include "topology/distance.h"

namespace penstock::tools {
namespace {

using core::PciDevice;

// The most that a table for people shows; JSON has all.
constexpr std::size_t kGpusShown = 8, kDrivesShown = 32;

std::vector<const PciDevice*> devices_of(const facts::Machine& machine, bool (PciDevice::*is_meant)() const) {
  std::vector<const PciDevice*> devices;
  for (const PciDevice& device : machine.pci) {
    if ((device.*is_meant)()) devices.push_back(&device);
  }
  return devices;
}
std::vector<const PciDevice*> drives_of(const facts::Machine& machine) {
  return devices_of(machine, &PciDevice::is_nvme);
}
std::vector<const PciDevice*> gpus_of(const facts::Machine& machine) { return devices_of(machine, &PciDevice::is_gpu); }

const char* relation_of(const PciDevice& drive, const PciDevice& gpu) {
  return core::distance_name(core::distance_between(drive, gpu));
}

}  // namespace

void print_placement(Page& page, const facts::Machine& machine) {
  std::vector<const PciDevice*> drives = drives_of(machine), gpus = gpus_of(machine);
  if (drives.empty() || gpus.empty()) return;
  page.section("Drives and GPUs: switch (below one PCIe switch), host_bridge, node (NUMA), or apart");
  const std::size_t all_drives = drives.size(), all_gpus = gpus.size();
  drives.resize(std::min(drives.size(), kDrivesShown));
  gpus.resize(std::min(gpus.size(), kGpusShown));
  std::vector<std::string> columns = {"  drive", "PCIe link"};
  for (const PciDevice* gpu : gpus) columns.push_back(gpu->address.substr(gpu->address.find(':') + 1));
  Table table(columns);
  for (const PciDevice* drive : drives) {
    std::vector<std::string> cells = {"  " + drive->address, link_text(*drive)};
    for (const PciDevice* gpu : gpus) cells.emplace_back(relation_of(*drive, *gpu));
    table.add(std::move(cells));
  }
  page.lines(table.text().string());
  if (all_drives > drives.size() || all_gpus > gpus.size()) {
    page.wrap("  ", fmt::format("of {} drives and {} GPUs; --json lists them all", all_drives, all_gpus));
  }
}

Json placement_json(const facts::Machine& machine) {
  Json rows = Json::array();
  for (const PciDevice* drive : drives_of(machine)) {
    for (const PciDevice* gpu : gpus_of(machine)) {
      rows.push_back({{"drive", drive->address}, {"gpu", gpu->address}, {"relation", relation_of(*drive, *gpu)}});
    }
  }
  return rows;
}

}  // namespace penstock::tools
