// SPDX-License-Identifier: Apache-2.0

#include "topology/block_device.h"

#include <gtest/gtest.h>

#include <string>

#include "topology/captured_stack.h"
#include "topology/test_tree.h"

namespace penstock::core {
namespace {

TEST(BlockDeviceTest, APartitionOfANvmeDriveKnowsItsDiskAndItsPlace) {
  const auto device = stack_under("dgx-h100", "/");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->name, "nvme0n1p2");
  EXPECT_EQ(device->disk, "nvme0n1");
  EXPECT_TRUE(device->is_partition());
  EXPECT_EQ(device->kind, BlockKind::nvme);
  EXPECT_EQ(device->transport, NvmeTransport::pcie);
  EXPECT_EQ(device->pci_address, "0000:03:00.0");
  EXPECT_EQ(device->logical_block_size, 512u);
  EXPECT_EQ(device->model, "SAMSUNG MZ1L21T9HCLS-00A07");
  EXPECT_EQ(device->numa_node, 0);
  EXPECT_FALSE(device->is_multipath);
  EXPECT_FALSE(device->is_rotational);
}

TEST(BlockDeviceTest, AMultipathNamespaceIsFollowedToItsController) {
  const auto device = stack_under("nfs", "/");
  ASSERT_TRUE(device);
  EXPECT_TRUE(device->is_multipath);
  EXPECT_EQ(device->transport, NvmeTransport::pcie);
  EXPECT_EQ(device->pci_address, "0000:19:00.0");
}

TEST(BlockDeviceTest, EncryptionIsSeen) {
  const auto device = stack_under("laptop", "/home");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->kind, BlockKind::dm);
  EXPECT_EQ(device->dm_type, "CRYPT");
  ASSERT_EQ(device->slaves.size(), 1u);
  EXPECT_EQ(device->slaves[0].name, "nvme0n1p3");
  EXPECT_EQ(device->slaves[0].disk, "nvme0n1");
}

TEST(BlockDeviceTest, StripesListTheirMembers) {
  const auto device = stack_under("md-raid0", "/scratch/file");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->kind, BlockKind::md);
  EXPECT_EQ(device->md_level, "raid0");
  ASSERT_EQ(device->slaves.size(), 2u);
  EXPECT_EQ(device->slaves[1].pci_address, "0000:22:00.0");
}

TEST(BlockDeviceTest, ALoopDeviceIsFollowedIntoItsBackingFile) {
  const auto device = stack_under("md-raid0", "/mnt/image");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->kind, BlockKind::loop);
  EXPECT_EQ(device->backing_file, "/scratch/images/data.img");
  ASSERT_EQ(device->slaves.size(), 1u);
  EXPECT_EQ(device->slaves[0].name, "md0");
  EXPECT_EQ(device->slaves[0].slaves.size(), 2u);
  EXPECT_EQ(device->text(), "loop0 (/scratch/images/data.img) on md0 on nvme0n1, nvme1n1");
}

TEST(BlockDeviceTest, OfManyMembersTheFirstAreNamed) {
  BlockDevice array{.name = "md0"};
  EXPECT_EQ(array.text(), "md0");
  for (const char* name : {"sda", "sdb", "sdc", "sdd", "sde", "sdf"}) array.slaves.push_back({.name = name});
  EXPECT_EQ(array.text(), "md0 on sda, sdb, sdc, sdd and 2 more");
}

TEST(BlockDeviceTest, ASpinningDiskUnderLvmIsSeen) {
  const auto device = stack_under("md-raid0", "/");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->dm_type, "LVM");
  ASSERT_EQ(device->slaves.size(), 1u);
  EXPECT_EQ(device->slaves[0].kind, BlockKind::scsi);
  EXPECT_TRUE(device->slaves[0].is_rotational);
  EXPECT_EQ(device->slaves[0].model, "ST4000NM0035");
}

TEST(BlockDeviceTest, AnIscsiDiskIsToldByItsSession) {
  const auto device = stack_under("iscsi", "/models");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->kind, BlockKind::scsi);
  EXPECT_TRUE(device->is_iscsi());
  EXPECT_EQ(device->iscsi_driver, "iscsi_tcp");
  EXPECT_EQ(device->iscsi_target, "iqn.2003-01.org.example:models");
  EXPECT_EQ(device->remote_transport(), "tcp");
  EXPECT_EQ(device->text(), "sdb (iSCSI)");
  EXPECT_EQ(stack_under("iscsi-iser", "/models")->remote_transport(), "rdma");
}

TEST(BlockDeviceTest, WhatAScsiDiskHangsOnIsInItsPath) {
  const std::pair<const char*, const char*> cases[] = {
      {"pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda", "sata"},
      {"pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host4/target4:0:0/4:0:0:0/block/sda", "usb"},
      {"pci0000:00/0000:05:00.0/host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0/block/sda", "sas"},
      {"pci0000:00/0000:06:00.0/host2/rport-2:0-1/target2:0:0/2:0:0:0/block/sda", "fc"},
      {"platform/host3/session12/target3:0:0/3:0:0:0/block/sda", "iscsi"},
      {"pci0000:00/0000:07:00.0/host5/target5:0:0/5:0:0:0/block/sda", ""},
      {"sessions/atari/usbx/block/sda", ""}};
  for (const auto& [place, link] : cases) {
    TestTree tree;
    tree.put(std::string("/sys/devices/") + place + "/dev", "8:0\n");
    tree.link("/sys/dev/block/8:0", std::string("../../devices/") + place);
    const auto device = read_block_device(tree.root(), MountTable(), {8, 0});
    ASSERT_TRUE(device) << place;
    EXPECT_EQ(device->scsi_link, link) << place;
    const std::string remote = std::string(link) == "iscsi" ? "unknown" : std::string(link) == "fc" ? "fc" : "";
    EXPECT_EQ(device->remote_transport(), remote) << place;
  }
}

TEST(BlockDeviceTest, AVirtioDiskIsOnItsPciDevice) {
  const auto device = stack_under("firecracker-vm", "/");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->kind, BlockKind::virtio);
  EXPECT_EQ(device->pci_address, "0000:00:02.0");
}

TEST(BlockDeviceTest, ADeviceMadeOfItselfEnds) {
  TestTree tree;
  tree.put("/sys/devices/virtual/block/dm-0/dev", "253:0\n").put("/sys/devices/virtual/block/dm-1/dev", "253:1\n");
  tree.link("/sys/dev/block/253:0", "../../devices/virtual/block/dm-0");
  tree.link("/sys/dev/block/253:1", "../../devices/virtual/block/dm-1");
  for (int i = 0; i < 8; ++i) {
    tree.link("/sys/devices/virtual/block/dm-0/slaves/a" + std::to_string(i), "../../dm-1");
    tree.link("/sys/devices/virtual/block/dm-1/slaves/b" + std::to_string(i), "../../dm-0");
  }
  const auto device = read_block_device(tree.root(), MountTable(), {253, 0});
  ASSERT_TRUE(device);
  EXPECT_EQ(device->kind, BlockKind::dm);
}

TEST(BlockDeviceTest, GarbageAttributesReadAsUnknown) {
  TestTree tree;
  const std::string disk = "/sys/devices/virtual/block/nvme0n1";
  tree.put(disk + "/dev", "259:0\n").put(disk + "/queue/logical_block_size", "-77\n").put(disk + "/slaves", "a file");
  tree.put(disk + "/device/transport", std::string(100000, 'z'));
  tree.link("/sys/dev/block/259:0", "../../devices/virtual/block/nvme0n1");
  tree.link("/sys/dev/block/259:1", "/");
  const auto device = read_block_device(tree.root(), MountTable(), {259, 0});
  ASSERT_TRUE(device);
  EXPECT_EQ(device->logical_block_size, 0u);
  EXPECT_EQ(device->transport, NvmeTransport::unknown);
  EXPECT_FALSE(read_block_device(tree.root(), MountTable(), {259, 1}));
  EXPECT_FALSE(read_block_device(tree.root(), MountTable(), {1, 2}));
}

TEST(BlockDeviceTest, EveryDeviceOfThisMachineCanBeRead) {
  const Root root = std::move(Root::open("").value());
  const MountTable mounts = MountTable::read(root);
  const auto names = root.list("/sys/dev/block");
  if (names.empty()) GTEST_SKIP() << "/sys/dev/block is empty here";
  for (const std::string& name : names) {
    const auto device = read_block_device(root, mounts, *parse_device_number(name));
    ASSERT_TRUE(device) << name;
    EXPECT_NE(device->kind, BlockKind::unknown) << device->name;
    EXPECT_GE(device->logical_block_size, 512u) << device->name;
  }
}

}  // namespace
}  // namespace penstock::core
