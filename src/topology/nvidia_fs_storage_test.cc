// SPDX-License-Identifier: Apache-2.0

#include "topology/nvidia_fs_storage.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::core {
namespace {

BlockDevice nvme(NvmeTransport transport = NvmeTransport::pcie) {
  BlockDevice drive;
  drive.kind = BlockKind::nvme;
  drive.transport = transport;
  return drive;
}

FileSystem on(BlockDevice device, const char* type = "xfs") {
  FileSystem storage;
  storage.mount.type = type;
  storage.stack = std::move(device);
  return storage;
}

BlockDevice over(BlockKind kind, std::vector<BlockDevice> slaves) {
  BlockDevice device;
  device.kind = kind;
  device.slaves = std::move(slaves);
  return device;
}

TEST(NvidiaFsStorageTest, AnArrayHasTheDriverThatAllItsDrivesHave) {
  EXPECT_EQ(nvidia_fs_driver(on(nvme())), "nvme");
  EXPECT_EQ(nvidia_fs_driver(on(nvme(NvmeTransport::rdma))), "nvme_rdma");
  EXPECT_EQ(nvidia_fs_driver(on(nvme(NvmeTransport::tcp))), "");
  EXPECT_EQ(nvidia_fs_driver(on(over(BlockKind::md, {nvme(), nvme()}))), "nvme");
  EXPECT_EQ(nvidia_fs_driver(on(over(BlockKind::md, {nvme(), nvme(NvmeTransport::rdma)}))), "");
}

TEST(NvidiaFsStorageTest, IscsiHasNoneAmongScsiDisks) {
  EXPECT_EQ(nvidia_fs_driver(on({.kind = BlockKind::scsi, .scsi_link = "sas"})), "scsi_mod");
  EXPECT_EQ(nvidia_fs_driver(on({.kind = BlockKind::scsi, .scsi_link = "iscsi"})), "");
}

TEST(NvidiaFsStorageTest, NfsHasOneByRdmaAlone) {
  FileSystem nfs;
  nfs.mount.type = "nfs4";
  EXPECT_EQ(nvidia_fs_driver(nfs), "");
  nfs.findings.push_back({Obstacle::nfs_rdma, Certainty::certain, ""});
  EXPECT_EQ(nvidia_fs_driver(nfs), "rpcrdma");
}

TEST(NvidiaFsStorageTest, TwoLocalFileSystemsAreTakenAndNothingMapped) {
  EXPECT_TRUE(nvidia_fs_takes(on(nvme(), "ext4")));
  EXPECT_FALSE(nvidia_fs_takes(on(nvme(), "btrfs")));
  EXPECT_FALSE(nvidia_fs_takes(on(over(BlockKind::dm, {nvme()}))));
  FileSystem copies = on(nvme());
  copies.direct_io.has = Tristate::no;
  EXPECT_FALSE(nvidia_fs_takes(copies));
}

}  // namespace
}  // namespace penstock::core
