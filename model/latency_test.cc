// SPDX-License-Identifier: Apache-2.0

#include "model/latency.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/input.h"

namespace penstock::model {
namespace {

constexpr double kMebibyte = 1 << 20;

TEST(Latency, IsMediaAndNetworkAndLinksAndCopies) {
  const Constants constants;
  const Latency direct = latency_of(LatencyPath::kDirect, {}, constants);
  EXPECT_NEAR(direct.total_s(), 100e-6 + kMebibyte / 7e9 + 3.5e-6, 1e-9);
  const Latency pinned = latency_of(LatencyPath::kPinned, {}, constants);
  EXPECT_NEAR(pinned.total_s() - direct.total_s(), 3e-6 + kMebibyte / 32e9, 1e-9);
  const Latency cached = latency_of(LatencyPath::kPageCache, {}, constants);
  EXPECT_NEAR(cached.total_s() - pinned.total_s(), 20e-9 + kMebibyte / 8.5e9, 1e-9);
}

TEST(Latency, TheNetworkIsNothingForADriveOfOnesOwn) {
  const Constants constants;
  EXPECT_EQ(latency_of(LatencyPath::kDirect, {}, constants).network_s, 0);
  const LatencyInput remote{.network_bytes_per_s = 50e9};
  EXPECT_NEAR(latency_of(LatencyPath::kDirect, remote, constants).network_s, 5e-6 + kMebibyte / 50e9, 1e-9);
}

TEST(Latency, BytesGoThroughHostMemoryTwiceAndWithACopyFourTimes) {
  const Constants constants;
  const LatencyInput save{.bytes = 140e9, .is_write = true};
  EXPECT_EQ(latency_of(LatencyPath::kDirect, save, constants).host_memory_bytes, 0);
  EXPECT_EQ(latency_of(LatencyPath::kPinned, save, constants).host_memory_bytes, 280e9);
  EXPECT_EQ(latency_of(LatencyPath::kPageCache, save, constants).host_memory_bytes, 560e9);
}

TEST(Latency, TheReportHasTheFiveHopsAndARowForEachPath) {
  const Report report = latency_report({}, Constants(), true);
  EXPECT_EQ(report.sheets[0].rows.size(), 5u);
  EXPECT_EQ(report.sheets[1].rows.size(), 3u);
  EXPECT_EQ(report.sheets[2].rows.size(), 3u);
  EXPECT_EQ(latency_report({.network_bytes_per_s = 1e9}, Constants(), false).sheets[0].rows.size(), 6u);
}

TEST(Latency, BadInputsAreRefused) {
  for (const double bad : {0.0, -1.0, std::nan(""), 1e30}) {
    EXPECT_THROW(latency_report({.bytes = bad}, Constants(), false), InvalidInput) << bad;
    EXPECT_THROW(latency_report({.drive_bytes_per_s = bad}, Constants(), false), InvalidInput) << bad;
  }
}

}  // namespace
}  // namespace penstock::model
