// SPDX-License-Identifier: Apache-2.0

#include "tools/check/bus_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "facts/near_adapters.h"
#include "tools/common/pci_text.h"
#include "tools/common/table.h"

namespace penstock::tools {
namespace {

// The most that a table for people shows; JSON has all.
constexpr std::size_t kGpusInATable = 8, kRowsInATable = 40;

std::string node_text(int node) {
  return node < 0 ? "the kernel reports no NUMA node" : fmt::format("NUMA node {}", node);
}

const char* relation(const BusEnd& end, const BusEnd& gpu) {
  return core::distance_name(facts::distance_between(end, gpu));
}

std::vector<BusEnd> drives_and_gpus(const std::vector<core::PciDevice>& devices) {
  std::vector<BusEnd> ends;
  for (const core::PciDevice& device : devices) {
    if (device.is_gpu() || device.is_nvme())
      ends.push_back({device, device.is_gpu() ? EndKind::gpu : EndKind::drive, {}});
  }
  return ends;
}

std::vector<std::pair<const BusEnd*, facts::NearAdapters>> nearest_nics(const std::vector<BusEnd>& ends) {
  std::vector<facts::Adapter> nics;
  for (const BusEnd& end : ends) {
    if (end.kind != EndKind::nic) continue;
    nics.push_back({&end.device, end.names.empty() ? end.device.address : end.names.front()});
  }
  std::vector<std::pair<const BusEnd*, facts::NearAdapters>> all;
  for (const BusEnd& end : ends) {
    if (end.kind != EndKind::nic && !nics.empty()) all.emplace_back(&end, facts::nearest_to(end.device, nics));
  }
  return all;
}

std::vector<const BusEnd*> some(const std::vector<BusEnd>& ends, bool gpus) {
  std::vector<const BusEnd*> found;
  for (const BusEnd& end : ends) {
    if ((end.kind == EndKind::gpu) == gpus) found.push_back(&end);
  }
  return found;
}

}  // namespace

// An end does not repeat the beginning of the tree that it shares with the one before it.
std::string bus_tree_text(const std::vector<BusEnd>& ends) {
  std::string text;
  std::vector<std::string> before;
  for (const BusEnd& end : ends) {
    std::vector<std::string> path = {node_text(end.device.numa_node), "host bridge " + end.device.host_bridge};
    for (const std::string& address : end.switches()) path.push_back("switch " + address);
    const auto [differs, ignored] = std::mismatch(path.begin(), path.end(), before.begin(), before.end());
    for (auto each = differs; each != path.end(); ++each)
      text += std::string(2 * static_cast<std::size_t>(each - path.begin()), ' ') + *each + "\n";
    const std::string indent(2 * path.size(), ' ');
    text +=
        fmt::format("{:<47} PCIe {}\n", fmt::format("{}{:<6} {}", indent, facts::end_kind_name(end.kind), end.text()),
                    link_text(end.device));
    before = std::move(path);
  }
  return text;
}

Json bus_ends_json(const std::vector<BusEnd>& ends) {
  Json rows = Json::array();
  for (const BusEnd& end : ends) {
    rows.push_back({{"kind", facts::end_kind_name(end.kind)},
                    {"pci_address", end.device.address},
                    {"names", end.names},
                    {"numa_node", end.device.numa_node},
                    {"host_bridge", end.device.host_bridge},
                    {"switches", end.switches()},
                    {"link", link_json(end.device.current_link)},
                    {"link_max", link_json(end.device.max_link)}});
  }
  return rows;
}

std::string distances_text(const std::vector<BusEnd>& ends, const char* heading, bool with_links) {
  std::vector<const BusEnd*> gpus = some(ends, true), others = some(ends, false);
  if (gpus.empty() || others.empty()) return "";
  const std::size_t all_gpus = gpus.size(), all_others = others.size();
  gpus.resize(std::min(gpus.size(), kGpusInATable));
  others.resize(std::min(others.size(), kRowsInATable));
  std::vector<std::string> columns = {std::string("  ") + heading};
  if (with_links) columns.emplace_back("PCIe link");
  const auto domain_of = [](const BusEnd* end) {
    return end->device.address.substr(0, end->device.address.find(':') + 1);
  };
  const auto is_elsewhere = [&](const BusEnd* gpu) { return domain_of(gpu) != domain_of(gpus[0]); };
  const bool has_domains = std::any_of(gpus.begin(), gpus.end(), is_elsewhere);
  for (const BusEnd* gpu : gpus) columns.push_back(gpu->device.address.substr(has_domains ? 0 : domain_of(gpu).size()));
  Table table(columns);
  for (const BusEnd* other : others) {
    std::vector<std::string> cells = {"  " + other->text()};
    if (with_links) cells.push_back(link_text(other->device));
    for (const BusEnd* gpu : gpus) cells.emplace_back(relation(*other, *gpu));
    table.add(std::move(cells));
  }
  std::string text = table.text().string();
  if (all_gpus > gpus.size() || all_others > others.size()) {
    text += fmt::format("  of {} {}s and {} GPUs; --json lists them all\n", all_others,
                        with_links ? heading : "drives and NIC", all_gpus);
  }
  return text;
}

Json distances_json(const std::vector<BusEnd>& ends) {
  Json rows = Json::array();
  for (const BusEnd* other : some(ends, false)) {
    for (const BusEnd* gpu : some(ends, true)) {
      rows.push_back({{"from", other->device.address},
                      {"kind", facts::end_kind_name(other->kind)},
                      {"gpu", gpu->device.address},
                      {"relation", relation(*other, *gpu)}});
    }
  }
  return rows;
}

std::string nearest_nics_text(const std::vector<BusEnd>& ends) {
  const auto all = nearest_nics(ends);
  if (all.empty()) return "";
  Table table({"  of", "NICs", "over"});
  for (std::size_t i = 0; i < std::min(all.size(), kRowsInATable); ++i) {
    const auto& [end, near] = all[i];
    table.add({fmt::format("  {} {}", facts::end_kind_name(end->kind), end->text()),
               fmt::format("{}", fmt::join(near.names, ", ")), core::distance_name(near.distance)});
  }
  std::string text = table.text().string();
  if (all.size() > kRowsInATable) text += fmt::format("  of {} GPUs and drives; --json lists them all\n", all.size());
  return text;
}

Json nearest_nics_json(const std::vector<BusEnd>& ends) {
  Json rows = Json::array();
  for (const auto& [end, near] : nearest_nics(ends)) {
    rows.push_back({{"of", end->device.address},
                    {"kind", facts::end_kind_name(end->kind)},
                    {"nics", near.names},
                    {"relation", core::distance_name(near.distance)}});
  }
  return rows;
}

void print_placement(Page& page, const std::vector<core::PciDevice>& devices) {
  const std::string table = distances_text(drives_and_gpus(devices), "drive", true);
  if (table.empty()) return;
  page.section("Drives and GPUs: switch (below one PCIe switch), host_bridge, node (NUMA), or apart");
  page.lines(table);
}

Json placement_json(const std::vector<core::PciDevice>& devices) {
  Json rows = Json::array();
  for (const Json& each : distances_json(drives_and_gpus(devices))) {
    rows.push_back({{"drive", each["from"]}, {"gpu", each["gpu"]}, {"relation", each["relation"]}});
  }
  return rows;
}

}  // namespace penstock::tools
