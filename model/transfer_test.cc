// SPDX-License-Identifier: Apache-2.0

#include "model/transfer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/compare_report.h"
#include "model/input.h"

namespace penstock::model {
namespace {

constexpr double kSharpKnee = 4;
constexpr TransferModel kTruth{20e-6, 6e9, 2e-6, 30e9};

// Measurements of a path with kTruth's numbers; `wobble` moves every other point up and the rest down.
std::vector<Measurement> measured(double wobble = 0) {
  std::vector<Measurement> all;
  for (const double block : {4096.0, 65536.0, 1048576.0, 16777216.0}) {
    for (const double depth : {1.0, 2.0, 8.0, 32.0}) {
      Measurement one{"read", "read", block, 1, depth, kTruth.rate(block, depth, kSharpKnee)};
      one.bytes_per_s *= all.size() % 2 == 0 ? 1 + wobble : 1 - wobble;
      all.push_back(one);
    }
  }
  return all;
}

TEST(Transfer, OneInFlightWaitsAndManyReachTheCeiling) {
  EXPECT_NEAR(kTruth.rate(1 << 20, 1, kSharpKnee) / ((1 << 20) / kTruth.block_s(1 << 20)), 1, 0.01);
  EXPECT_NEAR(kTruth.rate(64 << 20, 1000, kSharpKnee) / 30e9, 1, 0.01);
  EXPECT_NEAR(kTruth.rate(1, 1e6, kSharpKnee), 1 / 2e-6, 0.01 / 2e-6);
}

TEST(Transfer, CalibrationFindsTheNumbersBehindWhatTheyMade) {
  const TransferModel found = fit(measured(), kSharpKnee);
  EXPECT_NEAR(found.latency_s / kTruth.latency_s, 1, 0.05);
  EXPECT_NEAR(found.stream_bytes_per_s / kTruth.stream_bytes_per_s, 1, 0.05);
  EXPECT_NEAR(found.gap_s / kTruth.gap_s, 1, 0.05);
  EXPECT_NEAR(found.ceiling_bytes_per_s / kTruth.ceiling_bytes_per_s, 1, 0.05);
}

TEST(Transfer, PointsHeldOutArePredictedAsWellAsTheNoiseAllows) {
  const auto groups = compare(measured(0.05), 4, Constants());
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_LT(median_error(groups, true), 0.1);  // The full range of the noise.
  EXPECT_LT(largest_error(groups, true), 0.15);
}

TEST(Transfer, WhatIsHeldOutHasNoPartInTheCalibration) {
  std::vector<Measurement> all = measured();
  const auto before = compare(all, 4, Constants());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (before[0].rows[i].was_held_out) all[i].bytes_per_s *= 3;
  }
  const auto after = compare(all, 4, Constants());
  EXPECT_EQ(before[0].model.ceiling_bytes_per_s, after[0].model.ceiling_bytes_per_s);
  EXPECT_NEAR(median_error(after, true), 2.0 / 3, 0.02);
}

TEST(Transfer, TheMedianOfAnEvenNumberIsBetweenTheTwoInTheMiddle) {
  const auto off_by = [](double error) { return Comparison{{"read", "read", 1, 1, 1, 100}, 100 * (1 + error), true}; };
  const GroupComparison four{"read", kTruth, {off_by(0.4), off_by(-0.1), off_by(0.2), off_by(0.9)}};
  EXPECT_NEAR(median_error(std::vector{four}, true), 0.3, 1e-9);
  const GroupComparison three{"read", kTruth, {off_by(0.4), off_by(-0.1), off_by(0.2)}};
  EXPECT_NEAR(median_error(std::vector{three}, true), 0.2, 1e-9);
}

TEST(Transfer, TheOrderInTheFileDoesNotMatter) {
  std::vector<Measurement> all = measured(0.05);
  const auto forth = compare(all, 3, Constants());
  std::reverse(all.begin(), all.end());
  EXPECT_EQ(forth[0].model.latency_s, compare(all, 3, Constants())[0].model.latency_s);
}

TEST(Transfer, OnePointIsReproducedThoughItSettlesLittle) {
  const std::vector<Measurement> one = {{"read", "read", 1 << 20, 4, 16, 3e9}};
  const auto groups = compare(one, 4, Constants());
  EXPECT_LT(largest_error(groups, false), 0.01);
  EXPECT_TRUE(std::isnan(largest_error(groups, true)));
  EXPECT_EQ(compare_report(groups, 4).notes.size(), 1u);
}

// docs/internals/performance.md, page cache to GPU: four latencies of one thread, and two rates of several.
TEST(Transfer, OurMeasurementsOnAnH200ArePredictedWithinAQuarter) {
  std::vector<Measurement> all;
  const auto add = [&](double block, double threads, double bytes_per_s) {
    all.push_back({"read", "read", block, threads, 1, bytes_per_s});
  };
  add(4 << 10, 1, (4 << 10) / 11.9e-6);
  add(64 << 10, 1, (64 << 10) / 24.7e-6);
  add(256 << 10, 1, (256 << 10) / 60.0e-6);
  add(1 << 20, 1, (1 << 20) / 183.5e-6);
  add(1 << 20, 16, 26.1e9);
  add(16 << 20, 4, 33.4e9);
  const auto groups = compare(all, 4, Constants());
  EXPECT_LT(largest_error(groups, true), 0.25);
  EXPECT_LT(largest_error(groups, false), 0.25);
}

TEST(Transfer, HoldingOutEverythingIsRefused) {
  EXPECT_THROW(compare(measured(), 1, Constants()), InvalidInput);
  EXPECT_THROW(fit({}, kSharpKnee), InvalidInput);
}

TEST(Transfer, TheCeilingIsThatOfTheOperationAskedFor) {
  const auto groups = compare(measured(), 0, Constants());
  EXPECT_NEAR(measured_ceiling(groups, "read") / 30e9, 1, 0.05);
  EXPECT_EQ(measured_ceiling(groups, "write"), 0);
}

}  // namespace
}  // namespace penstock::model
