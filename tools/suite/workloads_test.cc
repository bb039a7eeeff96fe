// SPDX-License-Identifier: Apache-2.0

#include "tools/suite/workloads.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

TEST(SuiteWorkloads, AreThePublishedRowsAtFullScale) {
  ASSERT_EQ(workloads().size(), 6u);
  for (const Workload& each : workloads()) {
    EXPECT_NEAR(static_cast<double>(bytes_at(each, 1)) / each.full_bytes, 1, 0.001) << each.name;
    const double gain = each.published_without_s / each.published_with_s;
    EXPECT_GT(gain, 7) << each.name;
    EXPECT_LT(gain, 9.1) << each.name;
  }
}

TEST(SuiteWorkloads, KeepTheirFilesAtAnyScaleOfAMebibyteAtLeast) {
  for (const Workload& each : workloads()) {
    EXPECT_EQ(bytes_at(each, 1e-9), each.files * kFileSizeLeast) << each.name;
    EXPECT_EQ(file_size_at(each, 0.0123) % kFileSizeLeast, 0u) << each.name;
  }
}

}  // namespace
}  // namespace penstock::tools
