// SPDX-License-Identifier: Apache-2.0

#include "topology/file_system.h"

#include <gtest/gtest.h>

#include <string>

#include "topology/test_tree.h"

namespace penstock::core {
namespace {

FileSystem file_system_at(const std::string& machine, const std::string& mount_point) {
  const Root root = captured_machine(machine);
  for (FileSystem& one : read_file_systems(root, read_peer_machine(root))) {
    if (one.mount.mount_point == mount_point) return one;
  }
  ADD_FAILURE() << machine << " has no file system at " << mount_point;
  return {};
}

TEST(FileSystemTest, AFileSystemOnADriveTakesDevicePages) {
  const FileSystem data = file_system_at("dgx-h100", "/data/0");
  EXPECT_EQ(data.direct_io.has, Tristate::yes);
  EXPECT_EQ(data.device_pages.has, Tristate::yes);
  EXPECT_STREQ(data.device_pages.code, "");
  EXPECT_EQ(data.more_mounts, 1u);
  EXPECT_EQ(file_system_at("dgx-h100", "/boot/efi").device_pages.has, Tristate::no);
}

TEST(FileSystemTest, WhatStandsInTheWayHasACode) {
  struct Case {
    const char* machine;
    const char* mount_point;
    Tristate has;
    const char* code;
  };
  const Case cases[] = {
      {"laptop", "/", Tristate::no, "device_mapper"},
      {"laptop", "/tmp", Tristate::no, "memory"},
      {"laptop", "/boot", Tristate::yes, ""},
      {"cloud-vm", "/", Tristate::no, "virtio"},
      {"md-raid0", "/scratch", Tristate::unknown, "md_raid"},
      {"md-raid0", "/mnt/image", Tristate::no, "data_journal"},
      {"md-raid0", "/", Tristate::no, "device_mapper"},
      {"nfs", "/mnt/models", Tristate::no, "nfs_rdma"},
      {"nfs", "/", Tristate::unknown, "nvme_multipath"},
      {"container-overlay", "/", Tristate::unknown, "overlay"},
      {"container-overlay", "/models", Tristate::yes, ""},
  };
  for (const Case& one : cases) {
    const FileSystem file_system = file_system_at(one.machine, one.mount_point);
    EXPECT_EQ(file_system.device_pages.has, one.has) << one.machine << " " << one.mount_point;
    EXPECT_STREQ(file_system.device_pages.code, one.code) << one.machine << " " << one.mount_point;
  }
}

TEST(FileSystemTest, DirectIoIsRefusedByMemoryAndByDataJournal) {
  EXPECT_EQ(file_system_at("md-raid0", "/mnt/image").direct_io.has, Tristate::no);
  EXPECT_STREQ(file_system_at("md-raid0", "/mnt/image").direct_io.code, "data_journal");
  EXPECT_EQ(file_system_at("laptop", "/tmp").direct_io.has, Tristate::no);
  EXPECT_EQ(file_system_at("nfs", "/home").direct_io.has, Tristate::yes);
  EXPECT_EQ(file_system_at("container-overlay", "/").direct_io.has, Tristate::unknown);
}

TEST(FileSystemTest, EachIsListedOnceAndPseudoOnesNever) {
  TestTree tree;
  tree.put("/proc/self/mountinfo",
           "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /proc rw - proc proc rw\n"
           "3 1 8:2 /part /a rw - xfs /dev/sda2 rw\n4 1 8:2 / /longer rw - xfs /dev/sda2 rw\n"
           "5 1 0:6 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n6 1 8:1 /x /y rw - ext4 /dev/sda1 rw\n");
  const Root root = tree.root();
  const auto file_systems = read_file_systems(root, read_peer_machine(root));
  ASSERT_EQ(file_systems.size(), 2u);
  EXPECT_EQ(file_systems[0].mount.mount_point, "/");
  EXPECT_EQ(file_systems[0].more_mounts, 1u);
  EXPECT_EQ(file_systems[1].mount.mount_point, "/longer");
}

}  // namespace
}  // namespace penstock::core
