// SPDX-License-Identifier: Apache-2.0

#include "session/denylist.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "topology/test_tree.h"

namespace penstock::core {
namespace {

FileFacts file_on(unsigned major, unsigned minor) {
  FileFacts file;
  file.file_system_device = makedev(major, minor);
  return file;
}

TEST(DenylistTest, AnEmptyListDeniesNothing) {
  EXPECT_FALSE(denies({}, captured_machine("h200-p2pdma"), file_on(259, 1), 27));
  EXPECT_FALSE(denies({}, captured_machine("h200-p2pdma"), file_on(99, 99), std::nullopt));
}

TEST(DenylistTest, AFileIsDeniedByMountFileSystemDeviceOrDriver) {
  const Root machine = captured_machine("h200-p2pdma");  // An ext4 on nvme0n1p1.
  const FileFacts file = file_on(259, 1);
  const Denylist denying[] = {{.mounts = {"/"}},
                              {.file_systems = {"xfs", "ext4"}},
                              {.devices = {"/dev/nvme0n1"}},
                              {.devices = {"nvme0n1p1"}},
                              {.drivers = {"nvme"}}};
  const Denylist passing[] = {{.mounts = {"/scratch"}},   {.file_systems = {"xfs"}}, {.devices = {"/dev/nvme1n1"}},
                              {.drivers = {"nvme_rdma"}}, {.mounts = {""}},          {.devices = {"", "/"}}};
  for (const Denylist& list : denying) {
    EXPECT_TRUE(denies(list, machine, file, 27));
    EXPECT_TRUE(denies(list, machine, file, std::nullopt));  // The mount is found by its device number.
  }
  for (const Denylist& list : passing) EXPECT_FALSE(denies(list, machine, file, 27));
}

TEST(DenylistTest, OneOfTwoMountsOfAFileSystemCanBeDenied) {
  TestTree tree;
  tree.put("/proc/self/mountinfo",
           "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
           "2 1 8:2 / /data rw - xfs /dev/sda2 rw\n"
           "3 1 8:2 /part /scratch rw - xfs /dev/sda2 rw\n");
  const Denylist list{.mounts = {"/scratch/"}};

  EXPECT_TRUE(denies(list, tree.root(), file_on(8, 2), 3));
  EXPECT_FALSE(denies(list, tree.root(), file_on(8, 2), 2));
}

TEST(DenylistTest, TheDevicesThatAnArrayIsMadeOfCount) {
  const Root machine = captured_machine("md-raid0");
  const MountTable mounts = MountTable::read(machine);
  const auto on_md = std::find_if(mounts.mounts().begin(), mounts.mounts().end(),
                                  [](const Mount& mount) { return mount.source.starts_with("/dev/md"); });
  ASSERT_NE(on_md, mounts.mounts().end());
  const FileFacts file = file_on(on_md->device.major, on_md->device.minor);

  EXPECT_TRUE(denies({.devices = {"/dev/nvme1n1"}}, machine, file, on_md->id));
  EXPECT_TRUE(denies({.drivers = {"nvme"}}, machine, file, on_md->id));
  EXPECT_FALSE(denies({.devices = {"/dev/sda"}}, machine, file, on_md->id));
}

TEST(DenylistTest, TheKernelsDriverAndLinksToADeviceCount) {
  TestTree tree;
  tree.put("/proc/self/mountinfo", "1 0 254:1 / / rw - ext4 /dev/vda1 rw\n")
      .put("/sys/devices/vda/dev", "254:1\n")
      .put("/dev/vda", "")
      .link("/dev/disk/by-id/mine", "../../vda")
      .link("/sys/dev/block/254:1", "../../devices/vda")
      .link("/sys/class/block/vda", "../../devices/vda")
      .link("/sys/devices/vda/device", "../virtio3")
      .link("/sys/devices/virtio3/driver", "../../bus/virtio/drivers/virtio_blk");

  EXPECT_TRUE(denies({.drivers = {"virtio_blk"}}, tree.root(), file_on(254, 1), 1));
  EXPECT_TRUE(denies({.devices = {"/dev/disk/by-id/mine"}}, tree.root(), file_on(254, 1), 1));
  EXPECT_FALSE(denies({.drivers = {"sd"}, .devices = {"/dev/disk/by-id/other"}}, tree.root(), file_on(254, 1), 1));
}

TEST(DenylistTest, WhatCannotBeSeenMightBeTheNamedOne) {
  TestTree tree;
  tree.put("/proc/self/mountinfo",
           "1 0 0:30 / / rw - overlay overlay rw,upperdir=/far\n"
           "2 1 0:31 / /tmp rw - tmpfs tmpfs rw\n"
           "3 1 0:32 / /net rw - nfs4 server:/export rw\n");

  EXPECT_TRUE(denies({.mounts = {"/data"}}, tree.root(), file_on(9, 9), std::nullopt));
  EXPECT_TRUE(denies({.devices = {"/dev/nvme0n1"}}, tree.root(), file_on(0, 30), 1));
  EXPECT_FALSE(denies({.devices = {"/dev/nvme0n1"}}, tree.root(), file_on(0, 31), 2));
  EXPECT_FALSE(denies({.devices = {"/dev/nvme0n1"}}, tree.root(), file_on(0, 32), 3));
  EXPECT_TRUE(denies({.drivers = {"nfs4"}}, tree.root(), file_on(0, 32), 3));
}

TEST(DenylistTest, AFileSystemIsKnownByItsNumberAndADriveByItsOwn) {
  const Root machine = captured_machine("h200-p2pdma");
  FileFacts file = file_on(99, 99);
  file.file_system_magic = 0xEF53;  // ext4's. Its mount is not to be found.
  EXPECT_TRUE(denies({.file_systems = {"xfs", "ext4"}}, machine, file, std::nullopt));
  EXPECT_TRUE(denies({.file_systems = {"xfs"}}, machine, file, std::nullopt)) << "it might be beneath one";
  EXPECT_FALSE(denies({.devices = {"/dev/nvme0n1"}}, machine, file, std::nullopt)) << "no mount, no device";

  FileFacts drive = file_on(259, 1);
  drive.type = FileType::block_device;
  drive.block_device = makedev(259, 1);
  EXPECT_TRUE(denies({.devices = {"nvme0n1p1"}}, machine, drive, 27));
  EXPECT_FALSE(denies({.devices = {"nvme1n1"}}, machine, drive, 27));
}

TEST(DenylistTest, AMountThatIsGoneIsSoughtByItsDevice) {
  EXPECT_TRUE(denies({.mounts = {"/"}}, captured_machine("h200-p2pdma"), file_on(259, 1), 12345));
}

TEST(DenylistTest, OnThisMachineAFileIsDeniedAlsoWhereNothingCanBeLookedUp) {
  const UniqueFd file(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  const FileFacts facts = file_on(99, 99);
  EXPECT_FALSE(denies({}, facts, file.get()));
  EXPECT_TRUE(denies({.file_systems = {"proc"}}, facts, file.get()));
  EXPECT_FALSE(denies({.file_systems = {"ext4"}}, facts, file.get()));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool is_denied = denies({.file_systems = {"ext4"}}, facts, file.get());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(is_denied) << "it might be the listed one";
}

TEST(DenylistTest, ADescriptorTellsItsMount) {
  const Root machine = std::move(Root::open("/").value());
  const int fd = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const auto id = mount_id_of(machine, fd);
  ::close(fd);
  ASSERT_TRUE(id.has_value());
  const MountTable mounts = MountTable::read(machine);
  const auto mount =
      std::find_if(mounts.mounts().begin(), mounts.mounts().end(), [&](const Mount& one) { return one.id == *id; });

  ASSERT_NE(mount, mounts.mounts().end());
  EXPECT_EQ(mount->type, "proc");
  EXPECT_FALSE(mount_id_of(machine, -1).has_value());
}

}  // namespace
}  // namespace penstock::core
