// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/hwloc_file.h"

#include "model/pcie/test_fixture.h"

namespace penstock::model {
namespace {

// An lstopo file, reduced to the relevant parts: a GPU and a drive behind a switch, a NIC at a root port.
constexpr const char* kTopology = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0">
    <object type="Package" os_index="0">
      <object type="NUMANode" os_index="0" local_memory="541000000000"/>
      <object type="Bridge" gp_index="1" bridge_type="0-1" depth="0" bridge_pci="0000:[16-1f]">
        <object type="Bridge" bridge_type="1-1" pci_busid="0000:16:01.0" pci_type="0604" pci_link_speed="63.015385">
          <object type="Bridge" bridge_type="1-1" pci_busid="0000:17:00.0" pci_type="0604" pci_link_speed="63.015385">
            <object type="Bridge" bridge_type="1-1" pci_busid="0000:18:00.0" pci_type="0604" pci_link_speed="63.015385">
              <object type="PCIDev" pci_busid="0000:19:00.0" pci_type="0302 [10de:2330]" pci_link_speed="63.015385"/>
            </object>
            <object type="Bridge" bridge_type="1-1" pci_busid="0000:18:01.0" pci_type="0604" pci_link_speed="7.876923">
              <object type="PCIDev" pci_busid="0000:1a:00.0" pci_type="0108 [144d:a824]" pci_link_speed="7.876923">
                <object type="OSDev" name="nvme0n1" osdev_type="0"/>
              </object>
            </object>
          </object>
        </object>
        <object type="Bridge" bridge_type="1-1" pci_busid="0000:16:02.0" pci_type="0604" pci_link_speed="31.507692">
          <object type="PCIDev" pci_busid="0000:1e:00.0" pci_type="0200 [15b3:1021]" pci_link_speed="31.507692"/>
        </object>
      </object>
    </object>
  </object>
</topology>
)";

TEST(HwlocFile, BecomesTheTreeItDescribes) {
  const Machine machine = parse_hwloc(kTopology, "host.xml");

  ASSERT_EQ(machine.nodes.size(), 5U);
  const Node& gpu = machine.node(machine.find("gpu0"));
  const Node& drive = machine.node(machine.find("nvme0"));
  EXPECT_EQ(machine.node(gpu.parent).name, "switch-0000:17:00.0");
  EXPECT_EQ(gpu.parent, drive.parent);
  EXPECT_EQ(gpu.link.generation, 5U);
  EXPECT_EQ(gpu.link.width, 16U);
  EXPECT_EQ(drive.link.generation, 4U);
  EXPECT_EQ(drive.link.width, 4U);
  EXPECT_EQ(drive.read_rate, 7e9);
  EXPECT_EQ(machine.node(machine.node(machine.find("nic0")).parent).kind, NodeKind::root);
}

TEST(HwlocFile, HostBridgesOfOnePackageShareItsMemoryAndThoseOfAnotherDoNot) {
  const auto bridge = [](const std::string& bus) {
    return "<object type=\"Bridge\" bridge_type=\"0-1\"><object type=\"Bridge\" bridge_type=\"1-1\">"
           "<object type=\"PCIDev\" pci_busid=\"0000:" +
           bus + ":00.0\" pci_type=\"0302\"/></object></object>";
  };
  const std::string text = "<topology><object type=\"Machine\"><object type=\"Package\">" + bridge("16") +
                           bridge("37") + "</object><object type=\"Package\">" + bridge("97") +
                           "</object></object></topology>";

  const Machine machine = parse_hwloc(text, "host.xml");

  const auto root_of = [&](const char* gpu) { return machine.root_of(machine.find(gpu)); };
  EXPECT_EQ(machine.all(NodeKind::root).size(), 2U);
  EXPECT_EQ(root_of("gpu0"), root_of("gpu1"));
  EXPECT_NE(root_of("gpu0"), root_of("gpu2"));
}

TEST(HwlocFile, CanBeSimulatedAsItIs) {
  const Machine machine = parse_hwloc(kTopology, "host.xml");

  const Outcome outcome = run(machine, streams_of(machine, Pattern::own_drive));

  EXPECT_NEAR(outcome.bytes_per_second / 6.7e9, 1, 0.05);  // A Gen4 drive's link with packets of 256 B.
}

TEST(HwlocFile, NamesTheLineOfAMistake) {
  const auto says = [](std::string text, const std::string& what, const std::string& other) {
    text.replace(text.find(what), what.size(), other);
    return refusal([&] { parse_hwloc(text, "host.xml"); });
  };

  EXPECT_TRUE(says(kTopology, "pci_type=\"0302", "pci_type=\"GPU!").starts_with("host.xml:11: pci_type"));
  EXPECT_TRUE(says(kTopology, "</topology>", "").starts_with("host.xml:"));
  EXPECT_TRUE(says(kTopology, "7.876923\">\n                <object", "nan\">\n                <object")
                  .starts_with("host.xml:14: pci_link_speed"));
  EXPECT_TRUE(says(kTopology, "<topology version=\"2.0\">", "<topologist>").starts_with("host.xml:"));
}

TEST(HwlocFile, WithoutPciDevicesOrTooDeepItIsRefused) {
  EXPECT_NE(refusal([] { parse_hwloc("<topology/>", "host.xml"); }).find("holds no PCI device"), std::string::npos);
  std::string deep = "<topology>";
  for (int i = 0; i < 1000; ++i) deep += "<object type=\"Group\">";
  for (int i = 0; i < 1000; ++i) deep += "</object>";
  EXPECT_NE(refusal([&] { parse_hwloc(deep + "</topology>", "host.xml"); }).find("too deep"), std::string::npos);
}

}  // namespace
}  // namespace penstock::model
