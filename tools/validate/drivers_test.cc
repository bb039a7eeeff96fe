// SPDX-License-Identifier: Apache-2.0

// Conflicts of versions and hardware, on machines put together by hand.
#include <gtest/gtest.h>

#include <string>

#include "tools/validate/world.h"

namespace penstock::tools::validate {
namespace {

World world_with(std::uint16_t gpu_number, const std::string& driver, bool is_open) {
  World world;
  core::PciDevice gpu;
  gpu.address = "0000:18:00.0";
  gpu.vendor = 0x10de;
  gpu.device = gpu_number;
  gpu.device_class = 0x030200;
  world.machine.pci = {gpu};
  world.machine.nvidia.is_loaded = true;
  world.machine.nvidia.is_open = is_open;
  world.machine.nvidia.version_text = driver;
  world.machine.platform.kernel = {6, 8};
  world.machine.platform.kernel_release = "6.8.0";
  return world;
}

Row row_of(const World& world, std::string_view code) {
  Rows rows;
  judge_drivers(world, rows);
  for (const Row& row : rows) {
    if (row.code == code) return row;
  }
  ADD_FAILURE() << "no row " << code;
  return {};
}

TEST(ValidateDriversTest, AGpuNeedsADriverThatKnowsIt) {
  EXPECT_EQ(row_of(world_with(0x2330, "595.45.04", true), "gpu").state, State::pass);
  const Row old = row_of(world_with(0x2330, "515.43.04", true), "gpu");
  EXPECT_EQ(old.state, State::fail);
  EXPECT_NE(old.sentence.find("older than 525"), std::string::npos) << old.sentence;
  EXPECT_NE(old.source, "");
  EXPECT_EQ(row_of(world_with(0x0001, "595.45.04", true), "gpu").state, State::unknown);
}

TEST(ValidateDriversTest, BlackwellHasOpenKernelModulesAlone) {
  EXPECT_EQ(row_of(world_with(0x2901, "580.95.05", true), "gpu").state, State::pass);
  EXPECT_EQ(row_of(world_with(0x2901, "580.95.05", false), "gpu").state, State::fail);
}

TEST(ValidateDriversTest, TheProprietaryModulesGoWithAnOldNvidiaFsAlone) {
  World world = world_with(0x20b2, "535.216.01", false);
  EXPECT_EQ(row_of(world, "kernel_modules").state, State::fail);
  world.machine.nvidia_fs.is_loaded = true;
  world.machine.nvidia_fs.version = "2.15";
  EXPECT_EQ(row_of(world, "kernel_modules").state, State::pass);
  world.machine.nvidia_fs.version = "2.22";
  EXPECT_EQ(row_of(world, "kernel_modules").state, State::fail);
  EXPECT_NE(row_of(world_with(0x1db6, "535.216.01", false), "kernel_modules").remedy.find("no open kernel modules"),
            std::string::npos);
}

TEST(ValidateDriversTest, CudaIsTheDriversOwnWordOrFollowsFromItsVersion) {
  World world = world_with(0x2330, "580.159.04", true);
  EXPECT_EQ(row_of(world, "cuda").sentence, "CUDA 13.0 or later, by the version of the driver");
  world.cuda = 13010;
  EXPECT_EQ(row_of(world, "cuda").sentence, "CUDA 13.1, as the driver says");
  EXPECT_EQ(row_of(world_with(0x1db6, "418.40", false), "cuda").state, State::fail);
}

TEST(ValidateDriversTest, OfedThatCannotDoNvmeOverFabricsFailsWhereThatIsInUse) {
  World world = world_with(0x2330, "595.45.04", true);
  world.evidence.modules.push_back({"mlx5_core", "5.9-0.5.9", true});
  EXPECT_EQ(row_of(world, "ofed").state, State::pass);
  core::NvmeController target;
  target.transport = core::NvmeTransport::rdma;
  world.controllers.push_back(target);
  EXPECT_EQ(row_of(world, "ofed").state, State::fail);
  world.evidence.modules[0].version = "23.10-1.1.9";
  EXPECT_EQ(row_of(world, "ofed").state, State::pass);
  world.evidence.modules[0].version = "77.1";
  EXPECT_EQ(row_of(world, "ofed").state, State::unknown);
  world.evidence.modules[0].version = "6.8.0";
  EXPECT_EQ(row_of(world, "ofed").state, State::not_applicable);
}

TEST(ValidateDriversTest, NvidiaFsIsMeasuredByItsFaultsByTheDriverAndByTheKernel) {
  World world = world_with(0x2330, "580.159.04", true);
  world.machine.nvidia_fs.is_loaded = true;
  world.evidence.modules.push_back({"nvidia_fs", "2.26.6", true});
  for (const char* code : {"nvidia_fs", "nvidia_fs_driver", "nvidia_fs_kernel"}) {
    EXPECT_EQ(row_of(world, code).state, State::pass) << code;
  }
  world.evidence.modules[0].version = "2.20.5";
  EXPECT_EQ(row_of(world, "nvidia_fs_driver").state, State::pass);
  world.evidence.modules[0].version = "2.19.6";
  EXPECT_EQ(row_of(world, "nvidia_fs_driver").state, State::fail);
  EXPECT_EQ(row_of(world, "nvidia_fs").state, State::fail);
  EXPECT_EQ(row_of(world, "nvidia_fs_kernel").state, State::unknown);
  world.evidence.modules[0].version = "rubbish";
  EXPECT_EQ(row_of(world, "nvidia_fs").state, State::unknown);
}

TEST(ValidateDriversTest, AKernelThatATaskSwitchStopsWithNvidiaFsFailsWhereThatWasSeen) {
  World world = world_with(0x2330, "595.45.04", true);
  world.machine.nvidia_fs.is_loaded = true;
  world.evidence.modules.push_back({"nvidia_fs", "2.28.4", true});
  EXPECT_EQ(row_of(world, "nvidia_fs_task_switch").state, State::pass);
  world.machine.platform.kernel_release = "6.12.117+deb12-cloud-amd64";
  const Row seen = row_of(world, "nvidia_fs_task_switch");
  EXPECT_EQ(seen.state, State::fail);
  EXPECT_NE(seen.sentence.find("block: invalidate cached plug timestamp after task switch"), std::string::npos);
  EXPECT_NE(seen.remedy.find("Boot a kernel without that change"), std::string::npos) << seen.remedy;
  world.evidence.modules[0].version = "2.26.6";
  EXPECT_EQ(row_of(world, "nvidia_fs_task_switch").state, State::fail);
  for (const char* release : {"6.18.44", "6.14.0-33-generic"}) {
    world.machine.platform.kernel_release = release;
    const Row row = row_of(world, "nvidia_fs_task_switch");
    EXPECT_EQ(row.state, State::unknown) << release;
    EXPECT_NE(row.sentence.find("invalidate cached plug timestamp"), std::string::npos) << row.sentence;
  }
  world.evidence.modules[0].version = "2.30.2";
  EXPECT_EQ(row_of(world, "nvidia_fs_task_switch").state, State::unknown);
}

TEST(ValidateDriversTest, HooksAreWantedOfDriversWithDataOnTheirDrives) {
  World world = world_with(0x2330, "580.159.04", true);
  world.machine.nvidia_fs.is_loaded = true;
  core::FileSystem drive;
  drive.mount.mount_point = "/data";
  drive.mount.type = "ext4";
  core::BlockDevice stack;
  stack.kind = core::BlockKind::nvme;
  stack.transport = core::NvmeTransport::pcie;
  drive.stack = stack;
  world.machine.file_systems.push_back(drive);
  world.evidence.has_symbols = core::Tristate::no;
  EXPECT_EQ(row_of(world, "nvidia_fs_hooks").state, State::unknown);
  world.evidence.has_symbols = core::Tristate::yes;
  EXPECT_EQ(row_of(world, "nvidia_fs_hooks").state, State::fail);
  world.evidence.hooks.push_back({"nvme", 1, "nvme"});
  EXPECT_EQ(row_of(world, "nvidia_fs_hooks").state, State::pass);
  world.evidence.hooks.clear();
  world.machine.file_systems[0].mount.mount_point = "/";
  EXPECT_EQ(row_of(world, "nvidia_fs_hooks").state, State::not_applicable);
}

TEST(ValidateDriversTest, AKernelWithoutP2pdmaIsNoFaultWhereNvidiaFsIsTheWay) {
  World world = world_with(0x2330, "580.159.04", true);
  world.machine.platform.kernel = {5, 15};
  EXPECT_EQ(row_of(world, "kernel_p2pdma").state, State::fail);
  EXPECT_EQ(row_of(world, "kernel").state, State::pass);
  EXPECT_NE(row_of(world, "kernel").sentence.find("kernel_p2pdma"), std::string::npos) << "who answers for P2PDMA";
  world.machine.nvidia_fs.is_loaded = true;
  EXPECT_EQ(row_of(world, "kernel_p2pdma").state, State::not_applicable);
}

TEST(ValidateDriversTest, ASwitchOfCufilesThatForbidsIsNamedWhereItWasSet) {
  World world = world_with(0x2330, "580.159.04", true);
  world.machine.cufile.file = "/mnt/cufile.json";
  EXPECT_EQ(row_of(world, "cufile_json").state, State::pass);
  core::Settings& settings = world.machine.cufile.settings;
  settings.set("properties.force_compat_mode", true, core::Origin::file);
  EXPECT_NE(row_of(world, "cufile_json").sentence.find("true in /mnt/cufile.json"), std::string::npos);
  settings.set("properties.force_compat_mode", true, core::Origin::environment);
  EXPECT_EQ(row_of(world, "cufile_json").state, State::fail);
  EXPECT_EQ(row_of(world, "cufile_json").remedy, "Take CUFILE_FORCE_COMPAT_MODE out of the environment.");
}

TEST(ValidateDriversTest, AKernelBeforeNvidiaFsFails) {
  World world = world_with(0x2330, "580.159.04", true);
  world.machine.platform.kernel = {4, 14};
  EXPECT_EQ(row_of(world, "kernel").state, State::fail);
  world.machine.platform.kernel = {};
  EXPECT_EQ(row_of(world, "kernel").state, State::unknown);
}

}  // namespace
}  // namespace penstock::tools::validate
