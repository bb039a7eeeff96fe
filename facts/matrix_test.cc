// SPDX-License-Identifier: Apache-2.0

#include "facts/matrix.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::facts {
namespace {

TEST(ValidateMatrixTest, GpusAreToldByTheirPciNumbers) {
  const std::pair<std::uint16_t, const char*> cases[] = {
      {0x1db6, "Volta"},  {0x1eb8, "Turing"}, {0x20b2, "Ampere"},    {0x2236, "Ampere"},   {0x2330, "Hopper"},
      {0x2335, "Hopper"}, {0x26b9, "Ada"},    {0x2901, "Blackwell"}, {0x3182, "Blackwell"}};
  for (const auto& [device, name] : cases) {
    ASSERT_NE(generation_of(device), nullptr) << device;
    EXPECT_STREQ(generation_of(device)->name, name) << device;
  }
  EXPECT_EQ(generation_of(0x0001), nullptr);
  EXPECT_EQ(generation_of(0xffff), nullptr);
}

TEST(ValidateMatrixTest, TheNewestCudaThatADriverRunsFollowsFromItsVersion) {
  EXPECT_EQ(cuda_of_driver({418, 40, 0}), nullptr);
  EXPECT_EQ(cuda_of_driver({570, 86, 15})->number, 12080);
  EXPECT_EQ(cuda_of_driver({580, 65, 5})->number, 12090);
  EXPECT_EQ(cuda_of_driver({580, 65, 6})->number, 13000);
}

TEST(ValidateMatrixTest, ADriversBranchRunsEachCudaOfOneFirstNumber) {
  EXPECT_EQ(driver_branch_of_cuda(12), 525);
  EXPECT_EQ(driver_branch_of_cuda(13), 580);
  EXPECT_EQ(driver_branch_of_cuda(99), std::nullopt);
}

TEST(ValidateMatrixTest, NvidiaFsIsMeasuredByTheOldestReleasedWithTheDriversBranch) {
  EXPECT_FALSE(oldest_pairing({470, 1, 0}));
  EXPECT_EQ(oldest_pairing({550, 90, 7})->nvidia_fs, (core::NvidiaFsVersion{2, 17, 5}));
  EXPECT_EQ(oldest_pairing({565, 57, 1})->nvidia_fs, (core::NvidiaFsVersion{2, 17, 5}));
  EXPECT_EQ(oldest_pairing({580, 159, 4})->nvidia_fs, (core::NvidiaFsVersion{2, 20, 5}));
  EXPECT_EQ(oldest_pairing({595, 45, 4})->nvidia_fs, (core::NvidiaFsVersion{2, 28, 4}));
  EXPECT_NE(oldest_pairing({580, 0, 0})->source, "");
}

TEST(ValidateMatrixTest, SystemsAndOfedAreLookedUpByHowTheyBegin) {
  EXPECT_NE(system_source("Ubuntu 22.04.5 LTS"), nullptr);
  EXPECT_NE(system_source("Red Hat Enterprise Linux 9.5 (Plow)"), nullptr);
  EXPECT_EQ(system_source("Ubuntu 25.10"), nullptr);
  EXPECT_EQ(system_source("Debian GNU/Linux 13 (trixie)"), nullptr);
  EXPECT_EQ(system_source(""), nullptr);
  ASSERT_NE(ofed_release("5.9-0.5.9.0"), nullptr);
  EXPECT_FALSE(ofed_release("5.9-0.5.9.0")->has_nvme_of);
  EXPECT_TRUE(ofed_release("23.10-1.1.9")->has_nvme_of);
  EXPECT_EQ(ofed_release("99.1"), nullptr);
}

TEST(ValidateMatrixTest, NvidiaFsForAKernelIsTheFirstMadeForItOrTheNearestBefore) {
  EXPECT_EQ(nvidia_fs_for_kernel({5, 15}), nullptr);
  EXPECT_EQ(nvidia_fs_for_kernel({6, 8})->nvidia_fs, (core::NvidiaFsVersion{2, 19, 7}));
  EXPECT_EQ(nvidia_fs_for_kernel({6, 17})->nvidia_fs, (core::NvidiaFsVersion{2, 28, 2}));
}

}  // namespace
}  // namespace penstock::facts
