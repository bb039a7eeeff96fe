// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/pci_topology.h"

#include "model/pcie/test_fixture.h"
#include "topology/test_tree.h"

namespace penstock::model {
namespace {

Machine captured(const char* name) { return machine_of(core::read_pci_devices(core::captured_machine(name)), name); }

TEST(PciTopology, ACapturedDgxHasAGpuAndADriveUnderEachOfTwoSwitches) {
  const Machine machine = captured("dgx-h100");

  ASSERT_EQ(machine.all(NodeKind::gpu).size(), 2U);
  for (const int gpu : machine.all(NodeKind::gpu)) {
    EXPECT_EQ(machine.node(machine.node(gpu).parent).kind, NodeKind::pci_switch);
  }
  Workload workload;
  workload.streams = streams_of(machine, Pattern::own_drive);
  for (const Stream& stream : workload.streams) {
    EXPECT_EQ(pcie_distance(machine, machine.find(stream.stores[0]), machine.find(stream.gpu)), 2) << stream.gpu;
  }
  EXPECT_GT(run(machine, workload).bytes_per_second, 5e9);
}

TEST(PciTopology, AHostWithoutDevicesIsRefusedInOneSentence) {
  const std::vector<core::PciDevice> none;

  EXPECT_NE(refusal([&] { machine_of(none, "/"); }).find("is to be seen"), std::string::npos);
}

TEST(PciTopology, DevicesWithAbsurdLinksAreLeftOut) {
  core::PciDevice gpu;
  gpu.address = "0000:01:00.0";
  gpu.vendor = 0x10de;
  gpu.device_class = 0x030200;
  core::PciDevice sane = gpu;
  sane.address = "0000:02:00.0";
  sane.max_link = sane.current_link = {32, 16};
  gpu.max_link = gpu.current_link = {0, 3};
  const std::vector<core::PciDevice> devices = {gpu, sane};

  EXPECT_EQ(machine_of(devices, "/").all(NodeKind::gpu).size(), 1U);
}

}  // namespace
}  // namespace penstock::model
