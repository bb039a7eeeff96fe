// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/latency_histogram.h"

#include <gtest/gtest.h>

namespace penstock::model {
namespace {

TEST(LatencyHistogram, TellsPercentilesWithinAPerCent) {
  LatencyHistogram histogram;
  for (Picoseconds i = 1; i <= 100000; ++i) histogram.add(i * 1000000);

  for (const double share : {0.01, 0.5, 0.95, 0.99, 0.999}) {
    EXPECT_NEAR(histogram.percentile_seconds(share) / (share * 0.1), 1, 0.01) << share;
  }
}

TEST(LatencyHistogram, TellsMeanAndMostExactly) {
  LatencyHistogram histogram;
  for (const Picoseconds value : {3000000, 1000000, 8000000}) histogram.add(value);

  EXPECT_DOUBLE_EQ(histogram.mean_seconds(), 4e-6);
  EXPECT_DOUBLE_EQ(histogram.most_seconds(), 8e-6);
}

TEST(LatencyHistogram, IsEmptyAtFirstAndSaysNothingIsSlow) {
  const LatencyHistogram histogram;

  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.percentile_seconds(0.99), 0);
  EXPECT_EQ(histogram.mean_seconds(), 0);
}

TEST(LatencyHistogram, TakesTheLongestTimeThereIs) {
  LatencyHistogram histogram;
  histogram.add(UINT64_MAX);

  EXPECT_NEAR(histogram.percentile_seconds(0.5) / to_seconds(UINT64_MAX), 1, 0.01);
}

}  // namespace
}  // namespace penstock::model
