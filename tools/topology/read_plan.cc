// SPDX-License-Identifier: Apache-2.0

#include "tools/topology/read_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/pcie/flow_level.h"
#include "model/pcie/pci_topology.h"
#include "model/pcie/workload.h"
#include "tools/common/page.h"
#include "tools/common/table.h"
#include "tools/common/units.h"
#include "topology/distance.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kReadsMost = 4096;
constexpr std::size_t kReadsShown = 32;

const BusEnd* end_at(const std::vector<BusEnd>& ends, const std::string& address) {
  const auto found =
      std::find_if(ends.begin(), ends.end(), [&](const BusEnd& end) { return end.device.address == address; });
  return found == ends.end() ? nullptr : &*found;
}

std::string name_at(const std::vector<BusEnd>& ends, const std::string& address) {
  const BusEnd* const end = end_at(ends, address);
  return end == nullptr ? address : end->text();
}

const std::string& address_of(const model::Machine& machine, const std::string& node) {
  return machine.node(machine.find(node)).address;
}

// "nvme1 up", where the model counts drives by itself, becomes "nvme0 0000:19:00.0, up".
std::string station_text(const model::Machine& machine, const std::vector<BusEnd>& ends, const std::string& station) {
  const std::size_t space = station.find(' ');
  const int node = machine.find(station.substr(0, space));
  if (space == std::string::npos || node == model::kNone || machine.node(node).address.empty()) return station;
  return name_at(ends, machine.node(node).address) + "," + station.substr(space);
}

double total_of(const model::Machine& machine, std::vector<model::Stream> streams) {
  model::Workload workload;
  workload.streams = std::move(streams);
  return model::simulate_flows(model::compile(machine, workload), workload).shared_bytes_per_second;
}

void fill(const model::Machine& machine, const std::vector<BusEnd>& ends, ReadPlan& plan) {
  model::Workload workload;
  workload.streams = model::streams_of(machine, model::Pattern::own_drive, kReadsMost);
  const model::Network network = model::compile(machine, workload);
  const model::Outcome outcome = model::simulate_flows(network, workload);
  for (std::size_t i = 0; i < workload.streams.size(); ++i) {
    const std::string &gpu = address_of(machine, workload.streams[i].gpu),
                      &drive = address_of(machine, workload.streams[i].stores[0]);
    const BusEnd *const from = end_at(ends, drive), *const to = end_at(ends, gpu);
    if (from == nullptr || to == nullptr) continue;
    const core::Distance distance = core::distance_between(from->device, to->device);
    plan.reads.push_back({gpu, drive, core::distance_name(distance), outcome.streams[i].shared_bytes_per_second});
  }
  plan.bytes_per_second = outcome.shared_bytes_per_second;
  if (outcome.busiest_station != model::kNoStation)
    plan.bound_by = station_text(machine, ends, network.stations[outcome.busiest_station].name);
  plan.striped_per_second = total_of(machine, model::streams_of(machine, model::Pattern::striped, kReadsMost));
}

void add_idle(const std::vector<BusEnd>& ends, ReadPlan& plan) {
  for (const BusEnd& end : ends) {
    const auto reads_it = [&](const PlannedRead& read) { return read.drive == end.device.address; };
    if (end.kind == EndKind::drive && std::none_of(plan.reads.begin(), plan.reads.end(), reads_it))
      plan.idle.push_back(end.device.address);
  }
}

bool has(const std::vector<BusEnd>& ends, EndKind kind) {
  return std::any_of(ends.begin(), ends.end(), [&](const BusEnd& end) { return end.kind == kind; });
}

}  // namespace

unsigned ReadPlan::crossings() const {
  const char* const apart = core::distance_name(core::Distance::apart);
  return static_cast<unsigned>(
      std::count_if(reads.begin(), reads.end(), [&](const PlannedRead& read) { return read.relation == apart; }));
}

ReadPlan plan_reads(const std::vector<core::PciDevice>& devices, const std::vector<BusEnd>& ends) {
  ReadPlan plan;
  if (!has(ends, EndKind::gpu)) plan.not_made = "this machine shows no GPU";
  else if (!has(ends, EndKind::drive)) plan.not_made = "this machine shows no NVMe drive on its PCI bus";
  if (!plan.not_made.empty()) return plan;
  try {
    fill(model::machine_of(devices, "this machine"), ends, plan);
    add_idle(ends, plan);
  } catch (const model::InputError& unknown) {  // Of a link nothing is known, as in some virtual machines.
    plan = {};
    plan.not_made = unknown.what();
  }
  return plan;
}

std::string read_plan_text(const ReadPlan& plan, const std::vector<BusEnd>& ends) {
  Page page;
  if (!plan.not_made.empty()) {
    page.wrap("  ", "no plan: " + plan.not_made);
    return page.text();
  }
  Table table({"  GPU", "reads from", "over", ">at most"});
  for (std::size_t i = 0; i < std::min(plan.reads.size(), kReadsShown); ++i) {
    const PlannedRead& read = plan.reads[i];
    table.add({"  " + read.gpu, name_at(ends, read.drive), read.relation, format_rate(read.bytes_per_second)});
  }
  page.lines(table.text().string());
  if (plan.reads.size() > kReadsShown) page.wrap("  ", fmt::format("of {}; --json lists them all", plan.reads.size()));
  const std::string bound = plan.bound_by.empty() ? "" : ", held back by " + plan.bound_by;
  page.wrap("  ", fmt::format("In all {}{}; with every GPU reading from all drives {}.",
                              format_rate(plan.bytes_per_second), bound, format_rate(plan.striped_per_second)));
  if (const unsigned crossings = plan.crossings(); crossings > 0) {
    page.wrap("  ", fmt::format("{} of {} reads cross the link between sockets: move a drive, or read these from a "
                                "drive that others share.",
                                crossings, plan.reads.size()));
  }
  if (!plan.idle.empty()) {
    page.wrap("  ", fmt::format("{} drive{} left over; a stripe (md, LVM) over drives of one switch uses them.",
                                plan.idle.size(), plan.idle.size() == 1 ? " is" : "s are"));
  }
  page.wrap("  ", "By a model of links, with drives as they typically are: 'penstock doctor FILE' measures.");
  return page.text();
}

Json read_plan_json(const ReadPlan& plan) {
  if (!plan.not_made.empty()) return {{"not_made", plan.not_made}};
  Json json = {{"reads", Json::array()},        {"bytes_per_second", plan.bytes_per_second},
               {"bound_by", plan.bound_by},     {"striped_bytes_per_second", plan.striped_per_second},
               {"crossings", plan.crossings()}, {"idle_drives", plan.idle}};
  for (const PlannedRead& read : plan.reads) {
    json["reads"].push_back({{"gpu", read.gpu},
                             {"drive", read.drive},
                             {"relation", read.relation},
                             {"bytes_per_second", read.bytes_per_second}});
  }
  return json;
}

}  // namespace penstock::tools
