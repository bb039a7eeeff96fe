// SPDX-License-Identifier: Apache-2.0

#include "tools/common/interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace penstock::tools {
namespace {

std::vector<Sample> seconds_of(const std::vector<double>& rates) {
  std::vector<Sample> samples;
  for (const double rate : rates) samples.push_back({1, rate});
  return samples;
}

TEST(Interval, FollowsStudentsT) {
  EXPECT_NEAR(student(1), 12.706, 0.001);
  EXPECT_NEAR(student(4), 2.776, 0.001);
  EXPECT_NEAR(student(4.5), 2.674, 0.001);
  EXPECT_NEAR(student(60), 2.000, 0.002);
  EXPECT_NEAR(student(1e9), 1.960, 0.001);
}

// By hand: mean 10, standard deviation sqrt(0.5), error sqrt(0.1), t of 4 degrees 2.776; neighbours are not alike.
TEST(Interval, OfFiveStretchesIsTheOneOfATextbook) {
  const Estimate told = estimate(seconds_of({10, 11, 9, 10, 10}));
  EXPECT_DOUBLE_EQ(told.rate, 10);
  EXPECT_NEAR(told.half_width(), 2.776 * std::sqrt(0.1), 1e-3);
  EXPECT_EQ(told.degrees, 4);
  EXPECT_EQ(told.drift, 0);
}

TEST(Interval, IsNotThereForFewerThanFiveStretches) {
  for (const std::vector<double>& rates : {std::vector<double>{}, {7}, {7, 8, 9, 10}}) {
    const Estimate told = estimate(seconds_of(rates));
    EXPECT_FALSE(told.has_interval());
    EXPECT_EQ(told.low, told.high);
    EXPECT_EQ(told.batches.size(), rates.size());
  }
}

TEST(Interval, WeighsStretchesByTheirTime) {
  const std::vector<Sample> samples = {{1, 100}, {9, 0}};
  EXPECT_DOUBLE_EQ(estimate(samples).rate, 10);
}

TEST(Interval, TakesAShortEndForAPartOfTheStretchBefore) {
  const std::vector<Sample> samples = {{1, 10}, {1, 10}, {1.5, 15}, {1, 10}, {1, 10}, {0.01, 0}};
  EXPECT_EQ(estimate(samples).batches.size(), 5u);
}

TEST(Interval, OfStretchesWithoutTimeIsNotAnumberOfItsOwn) {
  const std::vector<Sample> samples(8);
  const Estimate told = estimate(samples);
  EXPECT_EQ(told.rate, 0);
  EXPECT_EQ(told.high, 0);
}

TEST(Interval, TellsOfATrendAndReachesOverBothHalves) {
  const Estimate told = estimate(seconds_of({20, 20.1, 19.9, 20, 20.1, 10, 10.1, 9.9, 10, 10.1}));
  EXPECT_NEAR(told.drift, -10 / told.rate, 0.01);
  EXPECT_LT(told.low, 10);
  EXPECT_GT(told.high, 20);
}

TEST(Interval, TakesAlikeNeighboursForFewerMeasurements) {
  std::vector<double> apart, in_runs;
  for (int i = 0; i < 40; ++i) {
    apart.push_back(i % 2 == 0 ? 9 : 11);
    in_runs.push_back(i / 5 % 2 == 0 ? 9 : 11);
  }
  EXPECT_GT(estimate(seconds_of(in_runs)).half_width(), estimate(seconds_of(apart)).half_width());
}

// Each value remembers four fifths of the one before.
TEST(Interval, HoldsTheTrueRateInMostMeasurementsThatRemember) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise;
  int held = 0;
  constexpr int kRuns = 500;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> rates(200);
    double state = noise(random) / 0.6;
    for (double& rate : rates) rate = 100 + (state = 0.8 * state + noise(random));
    const Estimate told = estimate(seconds_of(rates));
    if (told.low <= 100 && 100 <= told.high) ++held;
  }
  EXPECT_GE(held, kRuns * 94 / 100);
}

TEST(Interval, ReachesUpToWhatTheRateWouldBeWithoutOthers) {
  Estimate told = estimate(seconds_of({10, 11, 9, 10, 10}));
  const double low = told.low, high = told.high;
  told.share(0.04);
  EXPECT_EQ(told.high, high);
  told.share(0.5);
  EXPECT_EQ(told.low, low);
  EXPECT_DOUBLE_EQ(told.high, 20);
  told.share(1);
  EXPECT_DOUBLE_EQ(told.high, 40);
}

TEST(Interval, MedianIsTheMiddleOrBetweenTheTwoMiddleOnes) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

TEST(IntervalRatio, OfPairsSeesWhatDriftsTogether) {
  const std::vector<double> a = {10, 20, 40, 80, 160}, b = {11, 22.1, 43.9, 88.2, 175.8};
  const Ratio told = paired_ratio(a, b);
  EXPECT_NEAR(told.ratio, 1.1, 0.005);
  EXPECT_TRUE(told.differs());
  EXPECT_FALSE(paired_ratio(a, a).differs());
}

TEST(IntervalRatio, OfOverlappingMeasurementsIsNoDifference) {
  const Estimate slow = estimate(seconds_of({10, 11, 9, 10, 10}));
  const Estimate like_it = estimate(seconds_of({10, 10.8, 9.4, 10, 10}));
  const Estimate fast = estimate(seconds_of({20, 21, 19, 20, 20}));
  EXPECT_FALSE(welch_ratio(slow, like_it).differs());
  const Ratio told = welch_ratio(slow, fast);
  EXPECT_TRUE(told.differs());
  EXPECT_DOUBLE_EQ(told.ratio, 2);
}

}  // namespace
}  // namespace penstock::tools
