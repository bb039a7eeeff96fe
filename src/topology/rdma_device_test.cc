// SPDX-License-Identifier: Apache-2.0

#include "topology/rdma_device.h"

#include <gtest/gtest.h>

#include "topology/nvme_controller.h"
#include "topology/test_tree.h"

namespace penstock::core {
namespace {

const std::string kPort = "/sys/class/infiniband/mlx5_0/ports/1";

void put_gid(TestTree& tree, int index, const std::string& gid, const std::string& type) {
  const std::string number = std::to_string(index);
  tree.put(kPort + "/gids/" + number, gid + "\n");
  if (type.empty()) return;
  tree.put(kPort + "/gid_attrs/types/" + number, type + "\n");
  tree.put(kPort + "/gid_attrs/ndevs/" + number, "eth4\n");
}

TEST(RdmaDeviceTest, APortIsReadWithItsGidsAndItsInterface) {
  TestTree tree;
  tree.link("/sys/class/infiniband/mlx5_0/device", "../../../devices/pci0000:16/0000:16:01.0/0000:17:00.0");
  tree.put("/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0/vendor", "0x15b3\n");
  tree.put(kPort + "/state", "4: ACTIVE\n").put(kPort + "/link_layer", "Ethernet\n");
  tree.put("/sys/class/net/eth4/mtu", "1500\n").put("/sys/class/net/eth4/ecn/roce_rp/enable/3", "1\n");
  tree.put("/dcb/eth4", "prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off\n");
  put_gid(tree, 0, "fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1");
  put_gid(tree, 1, "fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2");
  put_gid(tree, 2, "0000:0000:0000:0000:0000:0000:0000:0000", "");

  const std::vector<RdmaDevice> devices = read_rdma_devices(tree.root());

  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].pci_address, "0000:17:00.0");
  EXPECT_FALSE(devices[0].is_software);
  ASSERT_EQ(devices[0].ports.size(), 1u);
  const RdmaPort& port = devices[0].ports[0];
  EXPECT_TRUE(port.is_active());
  EXPECT_TRUE(port.is_ethernet());
  EXPECT_EQ(port.gids, 2u);
  EXPECT_EQ(port.roce_v2_gids, 1u);
  EXPECT_EQ(port.routed_gids, 0u);
  ASSERT_EQ(port.interfaces.size(), 1u);
  EXPECT_EQ(port.interfaces[0].name, "eth4");
  EXPECT_EQ(port.interfaces[0].mtu, 1500u);
  EXPECT_EQ(port.interfaces[0].ecn, true);
  EXPECT_EQ(port.interfaces[0].flow_control.priorities, 0x08);
}

TEST(RdmaDeviceTest, AGidOfAnIpAddressIsToldFromOneOfTheLinkAlone) {
  const std::pair<const char*, unsigned> cases[] = {{"0000:0000:0000:0000:0000:ffff:c000:0201", 1},
                                                    {"2001:0db8:0000:0000:0000:0000:0000:0001", 1},
                                                    {"0000:0000:0000:0000:0000:ffff:a9fe:0001", 0},
                                                    {"fe80:0000:0000:0000:ba59:9fff:fe00:0001", 0},
                                                    {"febf:0000:0000:0000:0000:0000:0000:0001", 0}};
  for (const auto& [gid, routed] : cases) {
    TestTree tree;
    put_gid(tree, 0, gid, "RoCE v2");
    EXPECT_EQ(read_rdma_devices(tree.root())[0].ports[0].routed_gids, routed) << gid;
  }
}

TEST(RdmaDeviceTest, NoneOfTheThousandGidsThatSoftwareHasIsLeftOut) {
  TestTree tree;
  for (int index = 0; index < 1024; ++index) put_gid(tree, index, "0000:0000:0000:0000:0000:ffff:c000:0201", "RoCE v2");
  EXPECT_EQ(read_rdma_devices(tree.root())[0].ports[0].routed_gids, 1024u);
}

TEST(RdmaDeviceTest, ADeviceOfSoftwareNamesItsInterfaceItself) {
  TestTree tree;
  tree.link("/sys/class/infiniband/rxe0", "../../devices/virtual/infiniband/rxe0");
  tree.put("/sys/devices/virtual/infiniband/rxe0/parent", "eth0\n").put("/sys/class/net/eth0/mtu", "9000\n");
  tree.put("/sys/devices/virtual/infiniband/rxe0/ports/1/link_layer", "Ethernet\n");

  const std::vector<RdmaDevice> devices = read_rdma_devices(tree.root());

  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].pci_address, "");
  EXPECT_TRUE(devices[0].is_software);
  EXPECT_TRUE(has_rdma_of_software_alone(tree.root()));
  tree.link("/sys/class/infiniband/mlx5_0", "../../devices/pci0000:16/0000:17:00.0/infiniband/mlx5_0");
  EXPECT_FALSE(has_rdma_of_software_alone(tree.root()));
  EXPECT_FALSE(has_rdma_of_software_alone(TestTree().root()));
  ASSERT_EQ(devices[0].ports[0].interfaces.size(), 1u);
  EXPECT_EQ(devices[0].ports[0].interfaces[0].mtu, 9000u);
  EXPECT_FALSE(devices[0].ports[0].interfaces[0].ecn);
  EXPECT_EQ(devices[0].ports[0].state, "");
}

TEST(RdmaDeviceTest, RoceTakesTheLargestMtuThatFitsWithItsHeaders) {
  const std::pair<unsigned, unsigned> cases[] = {{0, 0},       {96, 0},      {400, 256},   {1500, 1024},
                                                 {2200, 2048}, {4191, 2048}, {4192, 4096}, {9000, 4096}};
  for (const auto& [interface, mtu] : cases) EXPECT_EQ(rdma_mtu_on(interface), mtu) << interface;
}

TEST(RdmaDeviceTest, WhatIsAbsurdOrMissingReadsAsAbsent) {
  TestTree tree;
  tree.put(kPort + "/state", "").put(kPort + "/gids/0", "zzzz").put(kPort + "/gid_attrs/ndevs/0", "../../etc");
  tree.put("/sys/class/infiniband/empty/fw_ver", "1\n");

  const std::vector<RdmaDevice> devices = read_rdma_devices(tree.root());

  ASSERT_EQ(devices.size(), 2u);
  EXPECT_TRUE(devices[0].ports.empty());
  EXPECT_FALSE(devices[1].ports[0].is_active());
  EXPECT_TRUE(devices[1].ports[0].interfaces.empty());
  EXPECT_TRUE(read_rdma_devices(TestTree().root()).empty());
}

TEST(NvmeControllerTest, AControllerOfATargetIsToldFromADrive) {
  TestTree tree;
  tree.put("/sys/class/nvme/nvme0/transport", "pcie\n").put("/sys/class/nvme/nvme0/address", "0000:01:00.0\n");
  tree.put("/sys/class/nvme/nvme1/transport", "tcp\n").put("/sys/class/nvme/nvme1/state", "connecting\n");
  tree.put("/sys/class/nvme/nvme1/address", "traddr=10.0.0.1,trsvcid=4420\n");
  tree.put("/sys/class/nvme/nvme1/subsysnqn", "nqn.2016-06.example:one\n");

  const std::vector<NvmeController> controllers = read_nvme_controllers(tree.root());

  ASSERT_EQ(controllers.size(), 2u);
  EXPECT_FALSE(controllers[0].is_remote());
  EXPECT_EQ(controllers[0].address, "");
  EXPECT_TRUE(controllers[1].is_remote());
  EXPECT_EQ(controllers[1].transport, NvmeTransport::tcp);
  EXPECT_EQ(controllers[1].state, "connecting");
  EXPECT_EQ(controllers[1].subsystem, "nqn.2016-06.example:one");
  EXPECT_EQ(controllers[1].address, "traddr=10.0.0.1,trsvcid=4420");
}

}  // namespace
}  // namespace penstock::core
