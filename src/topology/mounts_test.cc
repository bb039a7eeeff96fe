// SPDX-License-Identifier: Apache-2.0

#include "topology/mounts.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <string>

#include "topology/test_tree.h"

namespace penstock::core {
namespace {

std::string mount_point_of(const MountTable& table, std::string_view path) {
  const Mount* mount = table.find(path);
  return mount == nullptr ? "nothing" : mount->mount_point + " " + mount->source;
}

TEST(MountsTest, AFullLineIsTakenApart) {
  const MountTable table = MountTable::parse(
      "36 35 98:0 /part /mnt/with\\040blank\\134\\011 rw,noatime shared:1 master:2 - ext3 /dev/root rw,data=journal\n");
  ASSERT_EQ(table.mounts().size(), 1u);
  const Mount& mount = table.mounts()[0];
  EXPECT_EQ(mount.id, 36);
  EXPECT_EQ(mount.parent_id, 35);
  EXPECT_EQ(mount.device, (DeviceNumber{98, 0}));
  EXPECT_EQ(mount.root, "/part");
  EXPECT_EQ(mount.mount_point, "/mnt/with blank\\\t");
  EXPECT_EQ(mount.options, "rw,noatime");
  EXPECT_EQ(mount.type, "ext3");
  EXPECT_EQ(mount.source, "/dev/root");
  EXPECT_EQ(mount.super_option("data"), "journal");
  EXPECT_TRUE(mount.has_super_option("rw"));
  EXPECT_FALSE(mount.has_super_option("data"));
}

TEST(MountsTest, OptionalFieldsMayBeAbsentAndTheSourceEmpty) {
  const MountTable table =
      MountTable::parse("1 0 0:5 / /a rw - tmpfs  rw,size=4k\n2 0 0:6 / /b ro - nfs4 s:/e ro,proto=rdma");
  ASSERT_EQ(table.mounts().size(), 2u);
  EXPECT_EQ(table.mounts()[0].source, "");
  EXPECT_EQ(table.mounts()[0].super_option("size"), "4k");
  EXPECT_EQ(table.mounts()[1].super_option("proto"), "rdma");
}

TEST(MountsTest, GarbageLinesAreLeftOut) {
  const MountTable table = MountTable::parse(
      "\n - \nx y z\n1 2 3:4\n1 2 3:4 / relative rw - ext4 a b\n1 2 three:4 / /m rw - ext4 a b\n"
      "99999999999999999999 2 3:4 / /m rw - ext4 a b\n7 2 3:4 / /m\\04 rw - ext4 a b\n8 2 3:4 / /m rw -  a b");
  ASSERT_EQ(table.mounts().size(), 1u);
  EXPECT_EQ(table.mounts()[0].mount_point, "/m\\04");
}

TEST(MountsTest, APathIsFoundOnTheMountThatTheKernelWouldEnter) {
  const MountTable table = MountTable::parse(
      "1 0 8:1 / / rw - ext4 root rw\n"
      "2 1 8:2 / /data rw - xfs data rw\n"
      "3 2 8:3 / /data/deep rw - xfs deep rw\n"
      "4 1 8:4 / /dat rw - xfs dat rw\n");
  EXPECT_EQ(mount_point_of(table, "/"), "/ root");
  EXPECT_EQ(mount_point_of(table, "/database"), "/ root");
  EXPECT_EQ(mount_point_of(table, "/data"), "/data data");
  EXPECT_EQ(mount_point_of(table, "/data/file"), "/data data");
  EXPECT_EQ(mount_point_of(table, "/data/deep/file"), "/data/deep deep");
  EXPECT_EQ(mount_point_of(table, "/data/deeper"), "/data data");
}

TEST(MountsTest, AMountUnderALaterOneIsHidden) {
  const MountTable table = MountTable::parse(
      "1 0 8:1 / / rw - ext4 root rw\n"
      "2 1 8:2 / /data/deep rw - xfs hidden rw\n"
      "3 1 8:3 / /data rw - xfs cover rw\n"
      "4 3 8:4 / /data rw - xfs stacked rw\n");
  EXPECT_EQ(mount_point_of(table, "/data/deep/file"), "/data stacked");
  EXPECT_FALSE(table.is_visible(table.mounts()[1]));
  EXPECT_FALSE(table.is_visible(table.mounts()[2]));
  EXPECT_TRUE(table.is_visible(table.mounts()[3]));
}

TEST(MountsTest, WithoutTheirParentsMountsStillAnswer) {
  const MountTable captured = MountTable::parse(
      "1 0 8:1 / / rw - ext4 root rw\n"
      "25 24 0:23 / /dev/shm rw - tmpfs shm rw\n");
  EXPECT_EQ(mount_point_of(captured, "/dev/shm/file"), "/dev/shm shm");
  const MountTable in_chroot = MountTable::parse("25 24 0:23 / /proc rw - proc proc rw\n");
  EXPECT_EQ(mount_point_of(in_chroot, "/proc/self"), "/proc proc");
  EXPECT_EQ(mount_point_of(in_chroot, "/home"), "nothing");
}

TEST(MountsTest, ByDeviceTheWholeFileSystemComesBeforeABindMount) {
  const MountTable table = MountTable::parse(
      "1 0 8:1 / / rw - ext4 root rw\n"
      "2 1 8:2 /part /bind rw - xfs data rw\n"
      "3 1 8:2 / /data rw - xfs data rw\n");
  ASSERT_NE(table.find(DeviceNumber{8, 2}), nullptr);
  EXPECT_EQ(table.find(DeviceNumber{8, 2})->mount_point, "/data");
  EXPECT_EQ(table.find(DeviceNumber{9, 9}), nullptr);
}

TEST(MountsTest, CirclesAndSelfParentsEnd) {
  const MountTable table = MountTable::parse(
      "1 1 8:1 / / rw - ext4 root rw\n"
      "2 3 8:2 / / rw - ext4 two rw\n"
      "3 2 8:3 / / rw - ext4 three rw\n"
      "4 4 8:4 / / rw - ext4 four rw\n");
  EXPECT_EQ(mount_point_of(table, "/any"), "/ four");
}

TEST(MountsTest, AFloodOfMountsIsCutAndStillFast) {
  std::string text;
  for (int i = 1; i < 20000; ++i) {
    text += std::to_string(i) + " " + std::to_string(i - 1) + " 8:1 / / rw - ext4 root rw\n";
  }
  const MountTable table = MountTable::parse(text);
  EXPECT_EQ(table.mounts().size(), MountTable::kMountsMax);
  unsigned visible = 0;
  for (const Mount& mount : table.mounts()) visible += table.is_visible(mount) ? 1 : 0;
  EXPECT_LE(visible, 1u);
}

TEST(MountsTest, BtrfsIsOnTheDeviceItNames) {
  const Root root = captured_machine("laptop");
  const MountTable table = MountTable::read(root);
  const Mount* home = table.find("/home");
  ASSERT_NE(home, nullptr);
  EXPECT_EQ(home->type, "btrfs");
  EXPECT_EQ(home->device.major, 0u);
  EXPECT_EQ(mount_device(root, table, *home), (DeviceNumber{253, 0}));
}

TEST(MountsTest, OverlayIsOnTheDeviceOfItsUpperDirectoryWhereThatIsSeen) {
  const Root root = captured_machine("container-overlay");
  const MountTable inside = MountTable::read(root);
  ASSERT_NE(inside.find("/tmp"), nullptr);
  EXPECT_EQ(inside.find("/tmp")->type, "overlay");
  EXPECT_EQ(mount_device(root, inside, *inside.find("/tmp")), std::nullopt);

  const MountTable host = MountTable::parse(
      "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "2 1 0:50 / /merged rw - overlay overlay rw,lowerdir=/low,upperdir=/up,workdir=/work\n");
  EXPECT_EQ(mount_device(root, host, *host.find("/merged/file")), (DeviceNumber{8, 1}));
}

TEST(MountsTest, NetworkFileSystemsHaveNoDevice) {
  const Root root = captured_machine("nfs");
  const MountTable table = MountTable::read(root);
  const Mount* models = table.find("/mnt/models/llama");
  ASSERT_NE(models, nullptr);
  EXPECT_TRUE(is_network_file_system(models->type));
  EXPECT_EQ(models->super_option("proto"), "rdma");
  EXPECT_EQ(mount_device(root, table, *models), std::nullopt);
}

TEST(MountsTest, UnderAnotherRootItsInitTellsTheMountsRatherThanThisProcess) {
  TestTree tree;
  tree.put("/proc/self/mountinfo", "1 0 0:50 / / rw - overlay overlay rw\n");
  EXPECT_EQ(MountTable::read(tree.root()).find("/")->type, "overlay");

  tree.put("/proc/1/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
  EXPECT_EQ(MountTable::read(tree.root()).find("/")->type, "ext4");
}

TEST(MountsTest, ThisMachinesRootAgreesWithStat) {
  const MountTable table = MountTable::read(Root::open("").value());
  const Mount* top = table.find("/");
  ASSERT_NE(top, nullptr);
  if (top->type == "btrfs") GTEST_SKIP() << "btrfs gives its files another st_dev than mountinfo shows";
  struct stat facts;
  ASSERT_EQ(::stat("/", &facts), 0);
  EXPECT_EQ(top->device, (DeviceNumber{major(facts.st_dev), minor(facts.st_dev)}));
}

}  // namespace
}  // namespace penstock::core
