// SPDX-License-Identifier: Apache-2.0

#include "topology/network_mount.h"

#include <gtest/gtest.h>

#include "topology/test_tree.h"

namespace penstock::core {
namespace {

Mount mount_of(const std::string& type, const std::string& options, const std::string& source = "server:/export") {
  Mount mount;
  mount.type = type;
  mount.mount_point = "/data";
  mount.source = source;
  mount.super_options = options;
  return mount;
}

TEST(NetworkMountTest, EachFileSystemTellsItsTransportInItsOwnWay) {
  const TestTree nothing;
  const Root root = nothing.root();
  const std::tuple<Mount, const char*> cases[] = {
      {mount_of("nfs4", "rw,proto=rdma"), "rdma"},
      {mount_of("nfs", "rw,proto=tcp"), "tcp"},
      {mount_of("cifs", "rw,vers=3.1.1,rdma"), "rdma"},
      {mount_of("smb3", "rw"), "tcp"},
      {mount_of("lustre", "rw", "10.0.0.1@o2ib:/models"), "rdma"},
      {mount_of("lustre", "rw", "10.0.0.1@tcp1:/models"), "tcp"},
      {mount_of("lustre", "rw", "models"), ""},
      {mount_of("ceph", "rw"), "tcp"},
      {mount_of("9p", "rw,trans=virtio"), "virtio"},
      {mount_of("virtiofs", "rw"), "virtio"},
      {mount_of("gpfs", "rw"), ""},
  };
  for (const auto& [mount, transport] : cases) {
    EXPECT_EQ(network_transport(root, mount), transport) << mount.type << " " << mount.super_options << mount.source;
  }
}

TEST(NetworkMountTest, VastsClientShowsByItsModuleOrByOptionsThatNoOtherHas) {
  TestTree tree;
  const Mount plain = mount_of("nfs", "rw,proto=rdma,nconnect=8");
  EXPECT_FALSE(vast_client(tree.root(), plain).is_loaded);
  EXPECT_EQ(text_of(vast_client(tree.root(), plain)), "");
  for (const char* option : {"remoteports=10.0.0.1-10.0.0.8", "localports=ib0", "spread_reads", "mdconnect=2"}) {
    const VastClient client = vast_client(tree.root(), mount_of("nfs", std::string("rw,") + option));
    EXPECT_TRUE(client.is_loaded) << option;
    EXPECT_TRUE(std::string(option).starts_with(client.option)) << option;
  }
  tree.put("/sys/module/sunrpc/parameters/nfs_bundle_version", "4.0.35-vastdata\n");
  const VastClient client = vast_client(tree.root(), plain);
  EXPECT_TRUE(client.is_loaded);
  EXPECT_EQ(client.option, "") << "who serves the mount does not show";
  EXPECT_EQ(text_of(client), "VAST's NFS client 4.0.35-vastdata");
  EXPECT_FALSE(vast_client(tree.root(), mount_of("lustre", "rw")).is_loaded);
}

TEST(NetworkMountTest, ALocalCacheIsWantedByTheMountAndKeptByCachefiles) {
  TestTree tree;
  EXPECT_FALSE(local_cache(tree.root(), mount_of("nfs4", "rw,proto=tcp")).is_wanted);
  for (const char* options : {"rw,fsc", "rw,fsc=models"}) {
    EXPECT_TRUE(local_cache(tree.root(), mount_of("nfs4", options)).is_wanted) << options;
  }
  EXPECT_FALSE(local_cache(tree.root(), mount_of("nfs4", "rw,fsc")).is_there);
  tree.put("/sys/module/cachefiles/initstate", "live\n");
  EXPECT_TRUE(local_cache(tree.root(), mount_of("nfs4", "rw,fsc")).is_there);
}

TEST(NetworkMountTest, WhatTheClientsCpuDoesToEveryByteIsAnOptionOfTheMount) {
  EXPECT_EQ(client_transform(mount_of("nfs4", "rw,sec=sys")), "");
  EXPECT_EQ(client_transform(mount_of("nfs4", "rw,sec=krb5p")), "encrypts (sec=krb5p)");
  EXPECT_EQ(client_transform(mount_of("nfs4", "rw,sec=sys,xprtsec=mtls")), "encrypts (xprtsec=mtls)");
  EXPECT_EQ(client_transform(mount_of("smb3", "rw,seal")), "encrypts (seal)");
  EXPECT_EQ(client_transform(mount_of("ext4", "rw,seal")), "");
}

}  // namespace
}  // namespace penstock::core
