// SPDX-License-Identifier: Apache-2.0

#include "k8s/evidence.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::tools::k8s {
namespace {

// A node with nvidia-fs, whose NVMe driver has the hooks and is registered, and ext4 that shows its journal's mode.
struct World {
  World() {
    machine.nvidia_fs.is_loaded = true;
    machine.nvidia_fs.storage_drivers = {"nvme"};
    machine.platform.architecture = "x86_64";
    core::FileSystem storage;
    storage.mount.mount_point = "/data";
    storage.mount.type = "ext4";
    storage.mount.super_options = "rw,data=ordered";
    storage.stack.emplace();
    storage.stack->kind = core::BlockKind::nvme;
    storage.stack->transport = core::NvmeTransport::pcie;
    machine.file_systems.push_back(storage);
    evidence.has_symbols = core::Tristate::yes;
    evidence.hooks.push_back({"nvme", 1, "nvme"});
  }
  core::FileSystem& storage() { return machine.file_systems[0]; }
  PathEvidence nvidia_fs() const { return judge_node(machine, evidence).at(0).paths.at(1); }

  Machine machine;
  core::GdsEvidence evidence;
};

TEST(EvidenceTest, NvidiaFsIsOpenWhereNothingIsMissing) { EXPECT_EQ(World().nvidia_fs().standing, Standing::open); }

TEST(EvidenceTest, TheFirstThingThatIsMissingIsNamed) {
  World world;
  world.machine.iommu.mode = core::IommuMode::translating;
  EXPECT_EQ(world.nvidia_fs().rule, "iommu_translates");
  world.storage().mount.super_options = "rw";
  EXPECT_EQ(world.nvidia_fs().rule, "ext4_ordered");
  world.machine.nvidia_fs.storage_drivers.clear();
  world.evidence.hooks.clear();
  EXPECT_EQ(world.nvidia_fs().rule, "gds_local_nvme");
  EXPECT_EQ(world.nvidia_fs().standing, Standing::closed);
  world.storage().stack->transport = core::NvmeTransport::none;
  world.storage().stack->kind = core::BlockKind::dm;
  EXPECT_EQ(world.nvidia_fs().rule, "storage_mapper");
  world.machine.nvidia_fs.is_loaded = false;
  EXPECT_EQ(world.nvidia_fs().rule, "gds_not_loaded");
}

TEST(EvidenceTest, WhatTheKernelHidesIsUnknownAndNeitherOpenNorClosed) {
  World world;
  world.machine.nvidia_fs.storage_drivers.clear();
  EXPECT_EQ(world.nvidia_fs().standing, Standing::unknown) << "it has the hooks, and nobody has asked for them yet";
  world.evidence.hooks.clear();
  world.evidence.has_symbols = core::Tristate::no;
  EXPECT_EQ(world.nvidia_fs().standing, Standing::unknown);
}

TEST(EvidenceTest, NfsIsJudgedByItsTransport) {
  World world;
  world.storage().stack.reset();
  world.storage().mount.type = "nfs4";
  world.storage().mount.super_options = "rw,proto=tcp";
  EXPECT_EQ(world.nvidia_fs().rule, "nfs_by_tcp");
  world.storage().findings.push_back({core::Obstacle::nfs_rdma, core::Certainty::certain, ""});
  EXPECT_EQ(world.nvidia_fs().rule, "gds_local_nvme") << "rpcrdma is not registered, and has no hooks";
  world.machine.nvidia_fs.storage_drivers = {"rpcrdma"};
  EXPECT_EQ(world.nvidia_fs().standing, Standing::open);
}

}  // namespace
}  // namespace penstock::tools::k8s
