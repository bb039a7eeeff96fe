// SPDX-License-Identifier: Apache-2.0

// Conflicts of versions and hardware, on machines put together by hand.
#include <gtest/gtest.h>

#include <string>

#include "device/cuda/cuda_api.h"
#include "facts/examination.h"
#include "facts/needs.h"

namespace penstock::facts {
namespace {

Machine machine_with(std::uint16_t gpu_number, const std::string& driver, bool is_open) {
  Machine machine;
  core::PciDevice gpu;
  gpu.address = "0000:18:00.0";
  gpu.vendor = 0x10de;
  gpu.device = gpu_number;
  gpu.device_class = 0x030200;
  machine.pci = {gpu};
  machine.nvidia.is_loaded = true;
  machine.nvidia.is_open = is_open;
  machine.nvidia.version_text = driver;
  machine.platform.kernel = {6, 8};
  machine.platform.kernel_release = "6.8.0";
  return machine;
}

Finding row_of(const Machine& machine, std::string_view code) {
  for (const Finding& row : examine(machine).findings) {
    if (row.code == code) return row;
  }
  ADD_FAILURE() << "no row " << code;
  return {};
}

TEST(WhyStandIn, WithoutAGpuNobodyIsSentForADriver) {
  const std::string no_driver = std::string(core::cuda::kDriverNotLoaded) + " (...); install NVIDIA's driver";
  Machine machine;
  EXPECT_EQ(why_stand_in(machine, no_driver).sentence, "no NVIDIA GPU on the PCI bus");
  EXPECT_TRUE(why_stand_in(machine, no_driver).remedy.starts_with("Run on a machine with an NVIDIA GPU"));
  const Finding asked = why_stand_in(machine, "the configuration asks for it");
  EXPECT_EQ(asked.sentence + asked.remedy, "the configuration asks for it");
  EXPECT_EQ(why_stand_in(machine, "").sentence, "");
  machine.nvidia.is_loaded = true;
  EXPECT_EQ(why_stand_in(machine, no_driver).sentence, no_driver);
}

TEST(ValidateDriversTest, AGpuNeedsADriverThatKnowsIt) {
  EXPECT_EQ(row_of(machine_with(0x2330, "595.45.04", true), "gpu").state, State::pass);
  const Finding old = row_of(machine_with(0x2330, "515.43.04", true), "gpu");
  EXPECT_EQ(old.state, State::fail);
  EXPECT_NE(old.sentence.find("older than 525"), std::string::npos) << old.sentence;
  EXPECT_NE(old.source, "");
  EXPECT_EQ(row_of(machine_with(0x0001, "595.45.04", true), "gpu").state, State::unknown);
}

// These are H100 SXM and PCIe, H200, B200, B300, A100 SXM and PCIe, each with a driver before the first that knows it.
TEST(ValidateDriversTest, EachOfSevenGpusSaysItsLeastDriverAndCuda) {
  const struct {
    std::uint16_t number;
    const char* before;
    const char* sentence;
  } cases[] = {
      {0x2330, "520.61.05", "1 GPU, Hopper, for driver 525 and CUDA 12.0 or later"},
      {0x2331, "520.61.05", "1 GPU, Hopper, for driver 525 and CUDA 12.0 or later"},
      {0x2335, "520.61.05", "1 GPU, Hopper, for driver 525 and CUDA 12.0 or later"},
      {0x2901, "565.57.01", "1 GPU, Blackwell, for driver 570 and CUDA 12.8 or later"},
      {0x3182, "575.51.03", "1 GPU, Blackwell, for driver 580 and CUDA 13.0 or later"},
      {0x20b2, "440.33.01", "1 GPU, Ampere, for driver 450 and CUDA 11.4 or later"},
      {0x20f1, "440.33.01", "1 GPU, Ampere, for driver 450 and CUDA 11.4 or later"},
  };
  for (const auto& [number, before, sentence] : cases) {
    EXPECT_EQ(row_of(machine_with(number, "595.45.04", true), "gpu").sentence, sentence);
    EXPECT_EQ(row_of(machine_with(number, before, true), "gpu").state, State::fail) << number;
  }
}

TEST(ValidateDriversTest, BlackwellHasOpenKernelModulesAlone) {
  EXPECT_EQ(row_of(machine_with(0x2901, "580.95.05", true), "gpu").state, State::pass);
  EXPECT_EQ(row_of(machine_with(0x2901, "580.95.05", false), "gpu").state, State::fail);
}

TEST(ValidateDriversTest, TheProprietaryModulesGoWithAnOldNvidiaFsAlone) {
  Machine machine = machine_with(0x20b2, "535.216.01", false);
  EXPECT_EQ(row_of(machine, "kernel_modules").state, State::fail);
  machine.nvidia_fs.is_loaded = true;
  machine.nvidia_fs.version = "2.15";
  EXPECT_EQ(row_of(machine, "kernel_modules").state, State::pass);
  machine.nvidia_fs.version = "2.22";
  EXPECT_EQ(row_of(machine, "kernel_modules").state, State::fail);
  EXPECT_NE(row_of(machine_with(0x1db6, "535.216.01", false), "kernel_modules").remedy.find("no open kernel modules"),
            std::string::npos);
}

TEST(ValidateDriversTest, CudaIsTheDriversOwnWordOrFollowsFromItsVersion) {
  Machine machine = machine_with(0x2330, "580.159.04", true);
  EXPECT_EQ(row_of(machine, "cuda").sentence, "CUDA 13.0 or later, by the version of the driver");
  machine.probe.emplace().cuda = 13010;
  EXPECT_EQ(row_of(machine, "cuda").sentence, "CUDA 13.1, as the driver says");
  EXPECT_EQ(row_of(machine_with(0x1db6, "418.40", false), "cuda").state, State::fail);
}

TEST(ValidateDriversTest, OfedThatCannotDoNvmeOverFabricsFailsWhereThatIsInUse) {
  Machine machine = machine_with(0x2330, "595.45.04", true);
  machine.evidence.modules.push_back({"mlx5_core", "5.9-0.5.9", true});
  EXPECT_EQ(row_of(machine, "ofed").state, State::pass);
  core::NvmeController target;
  target.transport = core::NvmeTransport::rdma;
  machine.controllers.push_back(target);
  EXPECT_EQ(row_of(machine, "ofed").state, State::fail);
  machine.evidence.modules[0].version = "23.10-1.1.9";
  EXPECT_EQ(row_of(machine, "ofed").state, State::pass);
  machine.evidence.modules[0].version = "77.1";
  EXPECT_EQ(row_of(machine, "ofed").state, State::unknown);
  machine.evidence.modules[0].version = "6.8.0";
  EXPECT_EQ(row_of(machine, "ofed").state, State::not_applicable);
}

TEST(ValidateDriversTest, NvidiaFsIsMeasuredByItsFaultsByTheDriverAndByTheKernel) {
  Machine machine = machine_with(0x2330, "580.159.04", true);
  machine.nvidia_fs.is_loaded = true;
  machine.evidence.modules.push_back({"nvidia_fs", "2.26.6", true});
  for (const char* code : {"nvidia_fs", "nvidia_fs_driver", "nvidia_fs_kernel"}) {
    EXPECT_EQ(row_of(machine, code).state, State::pass) << code;
  }
  machine.evidence.modules[0].version = "2.20.5";
  EXPECT_EQ(row_of(machine, "nvidia_fs_driver").state, State::pass);
  machine.evidence.modules[0].version = "2.19.6";
  EXPECT_EQ(row_of(machine, "nvidia_fs_driver").state, State::fail);
  EXPECT_EQ(row_of(machine, "nvidia_fs").state, State::fail);
  EXPECT_EQ(row_of(machine, "nvidia_fs_kernel").state, State::unknown);
  machine.evidence.modules[0].version = "rubbish";
  EXPECT_EQ(row_of(machine, "nvidia_fs").state, State::unknown);
}

TEST(ValidateDriversTest, AKernelThatATaskSwitchStopsWithNvidiaFsFails) {
  Machine machine = machine_with(0x2330, "595.45.04", true);
  machine.nvidia_fs.is_loaded = true;
  machine.evidence.modules.push_back({"nvidia_fs", "2.28.4", true});
  EXPECT_EQ(row_of(machine, "nvidia_fs_task_switch").state, State::pass);
  machine.platform.kernel_release = "6.12.117+deb12-cloud-amd64";
  const Finding seen = row_of(machine, "nvidia_fs_task_switch");
  EXPECT_EQ(seen.state, State::fail);
  EXPECT_NE(seen.sentence.find("block: invalidate cached plug timestamp after task switch"), std::string::npos);
  EXPECT_NE(seen.remedy.find("Boot a kernel without that change"), std::string::npos) << seen.remedy;
  machine.evidence.modules[0].version = "2.26.6";
  EXPECT_EQ(row_of(machine, "nvidia_fs_task_switch").state, State::fail);
  machine.platform.kernel_release = "6.18.44";
  EXPECT_EQ(row_of(machine, "nvidia_fs_task_switch").state, State::fail);
  machine.platform.kernel_release = "6.14.0-33-generic";
  const Finding row = row_of(machine, "nvidia_fs_task_switch");
  EXPECT_EQ(row.state, State::unknown);
  EXPECT_NE(row.sentence.find("invalidate cached plug timestamp"), std::string::npos) << row.sentence;
  machine.evidence.modules[0].version = "2.30.2";
  EXPECT_EQ(row_of(machine, "nvidia_fs_task_switch").state, State::unknown);
}

TEST(ValidateDriversTest, HooksAreWantedOfDriversWithDataOnTheirDrives) {
  Machine machine = machine_with(0x2330, "580.159.04", true);
  machine.nvidia_fs.is_loaded = true;
  core::FileSystem drive;
  drive.mount.mount_point = "/data";
  drive.mount.type = "ext4";
  core::BlockDevice stack;
  stack.kind = core::BlockKind::nvme;
  stack.transport = core::NvmeTransport::pcie;
  drive.stack = stack;
  machine.file_systems.push_back(drive);
  machine.evidence.has_symbols = core::Tristate::no;
  EXPECT_EQ(row_of(machine, "nvidia_fs_hooks").state, State::unknown);
  machine.evidence.has_symbols = core::Tristate::yes;
  EXPECT_EQ(row_of(machine, "nvidia_fs_hooks").state, State::fail);
  machine.evidence.hooks.push_back({"nvme", 1, "nvme"});
  EXPECT_EQ(row_of(machine, "nvidia_fs_hooks").state, State::pass);
  machine.evidence.hooks.clear();
  machine.file_systems[0].mount.mount_point = "/";
  EXPECT_EQ(row_of(machine, "nvidia_fs_hooks").state, State::not_applicable);
}

TEST(ValidateDriversTest, AKernelWithoutP2pdmaIsNoFaultWhereNvidiaFsIsTheWay) {
  Machine machine = machine_with(0x2330, "580.159.04", true);
  machine.platform.kernel = {5, 15};
  EXPECT_EQ(row_of(machine, "kernel_p2pdma").state, State::fail);
  EXPECT_EQ(row_of(machine, "kernel").state, State::pass);
  EXPECT_NE(row_of(machine, "kernel").sentence.find("kernel_p2pdma"), std::string::npos) << "who answers for P2PDMA";
  machine.nvidia_fs.is_loaded = true;
  EXPECT_EQ(row_of(machine, "kernel_p2pdma").state, State::not_applicable);
}

TEST(ValidateDriversTest, WhatIsWrongBesidesAMissingGpuIsToldAsACauseOfItsOwn) {
  Machine machine = machine_with(0x2330, "", true);
  machine.pci.clear();
  machine.nvidia = {};
  machine.p2pdma = core::Tristate::no;
  machine.iommu.mode = core::IommuMode::translating;
  for (const char* code : {"gpu", "kernel_p2pdma", "iommu"}) {
    const Finding row = row_of(machine, code);
    EXPECT_EQ(row.state, State::fail) << code;
    EXPECT_FALSE(row.follows_from) << code;
  }
}

TEST(ValidateDriversTest, ASwitchOfCufilesThatForbidsIsNamedWhereItWasSet) {
  Machine machine = machine_with(0x2330, "580.159.04", true);
  machine.process.cufile.file = "/mnt/cufile.json";
  EXPECT_EQ(row_of(machine, "cufile_json").state, State::pass);
  core::Settings& settings = machine.process.cufile.settings;
  settings.set("properties.force_compat_mode", true, core::Origin::file);
  EXPECT_NE(row_of(machine, "cufile_json").sentence.find("true in /mnt/cufile.json"), std::string::npos);
  settings.set("properties.force_compat_mode", true, core::Origin::environment);
  EXPECT_EQ(row_of(machine, "cufile_json").state, State::fail);
  EXPECT_EQ(row_of(machine, "cufile_json").remedy, "Unset CUFILE_FORCE_COMPAT_MODE.");
}

TEST(ValidateDriversTest, AKernelBeforeNvidiaFsFails) {
  Machine machine = machine_with(0x2330, "580.159.04", true);
  machine.platform.kernel = {4, 14};
  EXPECT_EQ(row_of(machine, "kernel").state, State::fail);
  machine.platform.kernel = {};
  EXPECT_EQ(row_of(machine, "kernel").state, State::unknown);
}

}  // namespace
}  // namespace penstock::facts
