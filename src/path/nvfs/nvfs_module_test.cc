// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_module.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "fakes/fake_nvfs.h"
#include "path/nvfs/nvfs_reasons.h"
#include "path/pipeline/pipeline_reasons.h"

namespace penstock::core {
namespace {

Proof judged(const NvidiaFsVersion& version, NvfsUse use, const char* kernel = "6.8.0-1020-nvidia") {
  return judge_nvidia_fs(version, kernel, use);
}

TEST(NvfsVersionTest, AFaultyOneIsRefusedWithItsNumberAndAStandInUnlessAllowed) {
  for (const NvidiaFsVersion& version : {NvidiaFsVersion{2, 28, 4}, {2, 30, 2}, {9, 99, 0}}) {
    EXPECT_EQ(judged(version, NvfsUse::on).reason, Reason::none);
    EXPECT_EQ(judged(version, NvfsUse::automatic).reason, Reason::none);
    EXPECT_EQ(judged(version, NvfsUse::off).reason, nvfs_reason::off);
  }
  EXPECT_EQ(judged({2, 17, 5}, NvfsUse::on).reason, nvfs_reason::version);
  EXPECT_EQ(judged({2, 25, 6}, NvfsUse::stand_in).reason, nvfs_reason::version);
  EXPECT_EQ(judged({2, 25, 6}, NvfsUse::stand_in).error, 2'025'006);
  EXPECT_EQ(judged({0, 1, 0}, NvfsUse::on).reason, nvfs_reason::stand_in);
  EXPECT_EQ(judged({0, 1, 0}, NvfsUse::stand_in).reason, Reason::none);
}

TEST(NvfsVersionTest, OneThatStopsThisKernelIsRefusedAndOneThatMightUnlessItIsAskedFor) {
  const Reason stops = pipeline_reason::nvidia_fs_task_switch;
  EXPECT_EQ(judged({2, 28, 4}, NvfsUse::on, "6.12.117+deb12-cloud-amd64").reason, stops);
  EXPECT_EQ(judged({2, 28, 4}, NvfsUse::off, "6.12.117+deb12-cloud-amd64").reason, stops);
  EXPECT_EQ(judged({2, 30, 2}, NvfsUse::automatic, "6.12.117+deb12-cloud-amd64").reason, stops);
  EXPECT_EQ(judged({2, 30, 2}, NvfsUse::on, "6.12.117+deb12-cloud-amd64").reason, Reason::none);
  EXPECT_EQ(judged({2, 28, 4}, NvfsUse::automatic, "").reason, stops);
}

// A reason's number is its position in this table, so rows are only appended.
TEST(NvfsReasonTest, WhatToolsKnowByNumberIsNamedSo) {
  EXPECT_STREQ(nvfs_reasons().texts[4].name, "nvfs_no_driver");
  EXPECT_STREQ(nvfs_reasons().texts[12].name, "nvfs_off");
  EXPECT_EQ(static_cast<unsigned>(nvfs_reason::off), kFirstNvfsReason + 12u);
}

class NvfsModuleTest : public testing::Test {
 protected:
  Proof open() {
    Proof why_not;
    module_ = NvfsModule::open(kernel_, NvfsUse::stand_in, why_not);
    EXPECT_EQ(module_ == nullptr, why_not.reason != Reason::none);
    return why_not;
  }
  const std::shared_ptr<FakeNvfs> kernel_ = std::make_shared<FakeNvfs>();
  std::shared_ptr<NvfsModule> module_;
};

TEST_F(NvfsModuleTest, OpensEveryNodeOnceAndClosesThemWithItself) {
  kernel_->node_count = 5;
  EXPECT_EQ(open().reason, Reason::none);
  EXPECT_EQ(kernel_->open_nodes, 5u);
  EXPECT_TRUE(module_->is_stand_in());
  module_.reset();
  EXPECT_EQ(kernel_->open_nodes, 0u);
}

TEST_F(NvfsModuleTest, LookingOpensNothing) {
  EXPECT_EQ(NvfsModule::look(*kernel_, NvfsUse::stand_in).reason, Reason::none);
  EXPECT_EQ(kernel_->open_nodes, 0u);
  kernel_->version = "";
  EXPECT_EQ(NvfsModule::look(*kernel_, NvfsUse::stand_in).reason, nvfs_reason::missing);
}

TEST_F(NvfsModuleTest, WhatIsMissingIsToldByItsName) {
  kernel_->node_error = EACCES;
  EXPECT_EQ(open().reason, nvfs_reason::node);
  EXPECT_EQ(open().error, EACCES);
  kernel_->node_error = 0;
  kernel_->modules = "";  // Only wekafsio, which is always listed.
  EXPECT_EQ(open().reason, nvfs_reason::no_driver);
  kernel_->version = "2.25.6";
  EXPECT_EQ(open().error, 2'025'006);
  kernel_->version = "";
  EXPECT_EQ(open().reason, nvfs_reason::missing);
  EXPECT_EQ(kernel_->open_nodes, 0u);
}

TEST_F(NvfsModuleTest, ItsListHasADriverInWhateverFormItIsWritten) {
  const std::pair<const char*, Reason> cases[] = {{"nvme: (null)", Reason::none},
                                                  {"sick\n: nobody\nnvme: (null)\n", Reason::none},
                                                  {"sick\n: nobody\n", nvfs_reason::no_driver}};
  for (const auto& [modules, reason] : cases) {
    kernel_->modules = modules;
    EXPECT_EQ(open().reason, reason) << modules;
    module_.reset();
  }
}

TEST_F(NvfsModuleTest, NoMoreNodesAreOpenedThanItMayHave) {
  kernel_->node_count = nvfs::kNodesMax + 4;
  EXPECT_EQ(open().reason, Reason::none);
  EXPECT_EQ(kernel_->open_nodes, nvfs::kNodesMax);
}

TEST_F(NvfsModuleTest, ThereIsAnEndToMapsThatFail) {
  ASSERT_EQ(open().reason, Reason::none);
  for (unsigned i = 0; i < NvfsModule::kFailedMapsMax; ++i) {
    EXPECT_EQ(module_->map_refusal(), 0);
    module_->note_failed_map(ENOMEM);
  }
  EXPECT_EQ(module_->map_refusal(), ENOMEM);
}

}  // namespace
}  // namespace penstock::core
