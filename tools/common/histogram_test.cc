// SPDX-License-Identifier: Apache-2.0

#include "tools/common/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace penstock::tools {
namespace {

TEST(Histogram, IsExactWhereValuesAreSmall) {
  Histogram histogram;
  for (std::uint64_t value = 1; value <= 200; ++value) histogram.add(value);
  EXPECT_EQ(histogram.count(), 200u);
  EXPECT_EQ(histogram.quantile(0.5), 100u);
  EXPECT_EQ(histogram.quantile(0.99), 198u);
  EXPECT_EQ(histogram.quantile(1.0), 200u);
  EXPECT_EQ(histogram.quantile(0.0), 1u);
}

TEST(Histogram, WithoutValuesTellsZero) { EXPECT_EQ(Histogram{}.quantile(0.5), 0u); }

TEST(Histogram, StaysWithinOnePercentOfSortedValues) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> latencies(11, 2);
  std::vector<std::uint64_t> values(50'000);
  Histogram histogram;
  for (std::uint64_t& value : values) {
    value = static_cast<std::uint64_t>(latencies(random));
    histogram.add(value);
  }
  std::sort(values.begin(), values.end());
  for (const double quantile : {0.001, 0.5, 0.9, 0.99, 0.999}) {
    const auto rank = static_cast<std::size_t>(std::ceil(quantile * static_cast<double>(values.size())));
    const double exact = static_cast<double>(values[rank - 1]);
    EXPECT_NEAR(static_cast<double>(histogram.quantile(quantile)), exact, 0.01 * exact + 1) << quantile;
  }
}

TEST(Histogram, EveryPowerOfTwoAndItsNeighboursFindTheirBucket) {
  for (unsigned bit = 1; bit < 64; ++bit) {
    for (const int step : {-1, 0, 1}) {
      const std::uint64_t value = (std::uint64_t{1} << bit) + static_cast<std::uint64_t>(step);
      Histogram histogram;
      histogram.add(value);
      EXPECT_NEAR(static_cast<double>(histogram.quantile(0.5)), static_cast<double>(value),
                  0.005 * static_cast<double>(value));
    }
  }
  Histogram histogram;
  histogram.add(std::numeric_limits<std::uint64_t>::max());
  EXPECT_GT(histogram.quantile(1.0), std::uint64_t{1} << 63);
}

TEST(Histogram, MergedHistogramsCountAsOne) {
  Histogram fast, slow;
  for (int i = 0; i < 90; ++i) fast.add(10);
  for (int i = 0; i < 10; ++i) slow.add(100);
  fast.merge(slow);
  EXPECT_EQ(fast.count(), 100u);
  EXPECT_EQ(fast.quantile(0.90), 10u);
  EXPECT_EQ(fast.quantile(0.91), 100u);
}

TEST(Histogram, BarsReachFromTheFirstValueToTheLastAndCountEachOnce) {
  Histogram histogram;
  for (const std::uint64_t value : {100u, 1000u, 1023u, 1024u, 100'000u}) histogram.add(value);
  const auto bars = histogram.bars();
  EXPECT_LE(bars.front().from, 100u);
  EXPECT_GT(bars.back().below, 100'000u);
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < bars.size(); ++i) {
    count += bars[i].count;
    EXPECT_TRUE(i == 0 || bars[i].from == bars[i - 1].below);
  }
  EXPECT_EQ(count, 5u);
  EXPECT_EQ(Histogram().bars().size(), 0u);
}

TEST(Histogram, FewerBarsAreCoarserAndLoseNothing) {
  Histogram histogram;
  for (std::uint64_t value = 1; value < 1'000'000; value *= 3) histogram.add(value);
  const auto bars = histogram.bars(5);
  EXPECT_LE(bars.size(), 5u);
  std::uint64_t count = 0;
  for (const auto& bar : bars) count += bar.count;
  EXPECT_EQ(count, histogram.count());
  EXPECT_LE(bars.front().from, 1u);
  EXPECT_GT(bars.back().below, 531'441u);
}

}  // namespace
}  // namespace penstock::tools
