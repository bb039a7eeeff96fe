// SPDX-License-Identifier: Apache-2.0

#include "tools/check/topology.h"

#include <memory>

#include "tools/check/read_plan.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/machine_root.h"
#include "tools/common/page.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

constexpr const char* kTopologyExamples =
    "Examples:\n"
    "  penstock topology              which device is where, how far apart, and which GPU should read from which "
    "drive\n"
    "  penstock topology --root DIR   of a machine that scripts/capture-machine captured\n"
    "  penstock topology --json       for a program\n"
    "It measures nothing: rates are those of the links, with typical drives. NUMA nodes, bridges and links are what "
    "the kernel reports; in a virtual machine they are what its host shows.\n"
    "Exit code: 0 shown, 2 wrong usage, 77 if no GPU, NVMe drive or NIC can be seen.";

std::string topology_text(const std::vector<BusEnd>& ends, const ReadPlan& plan) {
  Page page;
  page.wrap("", "GPUs, NVMe drives and NICs, by their bus");
  page.lines(Text(bus_tree_text(ends)).string());
  if (const std::string distances = distances_text(ends); !distances.empty()) {
    page.section("How far: switch (below one PCIe switch), host_bridge, node (NUMA), apart, or unknown");
    page.lines(distances);
  }
  if (const std::string nics = nearest_nics_text(ends); !nics.empty()) {
    page.section("Which NICs are nearest, for storage and peers over a network");
    page.lines(nics);
  }
  page.section(
      "Which GPU should read from which drive: the nearest pairs first, each drive once while there are enough");
  page.lines(read_plan_text(plan, ends));
  return page.text();
}

}  // namespace

int draw_topology(const core::Root& root, bool json) {
  const std::vector<core::PciDevice> devices = facts::pci_devices(root);
  const std::vector<BusEnd> ends = facts::bus_ends(root, devices);
  const ReadPlan plan = plan_reads(devices, ends);
  if (json) {
    print_json({{"schema", 1},
                {"devices", bus_ends_json(ends)},
                {"distances", distances_json(ends)},
                {"nearest_nics", nearest_nics_json(ends)},
                {"plan", read_plan_json(plan)}});
  } else if (ends.empty()) {
    print("no GPU, NVMe drive or NIC can be seen on the PCI bus\n");
  } else {
    print("{}", Text(topology_text(ends, plan)));
  }
  return ends.empty() ? kNotApplicable : kSuccess;
}

void add_topology(CommandLine& command) {
  struct Settings {
    std::string root;
    bool json = false;
  };
  auto settings = std::make_shared<Settings>();
  command.option("--root", settings->root, "Read the captured machine in DIR instead of this one").value_name("DIR");
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kTopologyExamples);
  command.runs([settings] { return draw_topology(open_machine_root(settings->root), settings->json); });
}

}  // namespace penstock::tools
