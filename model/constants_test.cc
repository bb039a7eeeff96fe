// SPDX-License-Identifier: Apache-2.0

#include "model/constants.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "model/input.h"
#include "model/sensitivity.h"

namespace penstock::model {
namespace {

TEST(Constants, EveryRowHasANameOfItsOwnAUnitASourceAndARangeAroundItsValue) {
  std::set<std::string_view> names;
  for (const ConstantFacts& facts : constant_table()) {
    EXPECT_TRUE(names.insert(facts.name).second) << facts.name;
    EXPECT_FALSE(facts.unit.empty()) << facts.name;
    EXPECT_GT(facts.source.size(), 5u) << facts.name;
    EXPECT_LE(facts.low, facts.value) << facts.name;
    EXPECT_GE(facts.high, facts.value) << facts.name;
    EXPECT_GT(facts.low, 0) << facts.name;
  }
}

TEST(Constants, TheTableStandsInTheOrderOfTheNames) {
  EXPECT_EQ(facts_of(Constant::kHostRegisterFixed).name, "host_register.fixed");
  EXPECT_EQ(facts_of(Constant::kDriveGen4Read).name, "drive.gen4_read");
  EXPECT_EQ(facts_of(Constant::kPoorHost).name, "poor_host");
  EXPECT_EQ(facts_of(Constant::kKnee).name, "transfer.knee");
}

TEST(Constants, AUserMaySetOneByName) {
  Constants constants;
  constants.set("drive.share", 0.5);
  EXPECT_EQ(constants[Constant::kDriveShare], 0.5);
  EXPECT_EQ(Constants()[Constant::kDriveShare], 0.6);
}

TEST(Constants, WhatIsNoConstantAndNoPositiveNumberIsRefused) {
  Constants constants;
  EXPECT_THROW(constants.set("drive.gen9", 1), InvalidInput);
  for (const double value : {0.0, -1.0, 1e30, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(constants.set("drive.gen4_read", value), InvalidInput) << value;
  }
}

TEST(Sensitivity, OfAProductOfPowersIsItsExponents) {
  const Sensitivity found = sensitivity_of("x", Constants(), [](const Constants& c) {
    return c[Constant::kDriveGen4Read] * c[Constant::kDriveGen4Read] / c[Constant::kPoorHost];
  });
  ASSERT_EQ(found.influences.size(), 2u);
  EXPECT_EQ(found.influences[0].constant, "drive.gen4_read");
  EXPECT_NEAR(found.influences[0].elasticity, 2, 1e-3);
  EXPECT_EQ(found.influences[1].constant, "poor_host");
  EXPECT_NEAR(found.influences[1].elasticity, -1, 1e-3);
  EXPECT_NEAR(found.influences[1].at_low / found.value, 0.58 / 0.48, 1e-9);
  EXPECT_NEAR(found.most / found.value, 0.58 / 0.48, 1e-9);
  EXPECT_NEAR(found.least / found.value, 0.58 / 0.64, 1e-9);
}

TEST(Sensitivity, AConstantThatWasGivenIsKnown) {
  Constants given;
  given.set("drive.share", 0.5);
  const auto share = [](const Constants& c) { return c[Constant::kDriveShare]; };
  EXPECT_EQ(sensitivity_of("x", given, share).least, 0.5);
  EXPECT_EQ(sensitivity_of("x", given, share).most, 0.5);
  EXPECT_EQ(sensitivity_of("x", Constants(), share).least, 0.4);
}

TEST(Sensitivity, OfSomethingUnreachableIsEmpty) {
  const auto never = [](const Constants&) { return std::numeric_limits<double>::infinity(); };
  EXPECT_TRUE(sensitivity_of("x", Constants(), never).influences.empty());
}

// A NaN slope has no place in an order, and must not disturb the order of the others.
TEST(Sensitivity, WhereASmallStepHasNoEndTheOthersStillComeInOrder) {
  constexpr Constant kFirst = static_cast<Constant>(0), kSecond = static_cast<Constant>(1),
                     kThird = static_cast<Constant>(2);
  const double usual = Constants()[kSecond];
  const Sensitivity found = sensitivity_of("x", Constants(), [&](const Constants& c) {
    const double off = std::abs(c[kSecond] / usual - 1);
    if (off > 0 && off < 0.02) return std::numeric_limits<double>::infinity();
    return c[kFirst] * c[kSecond] * c[kThird] * c[kThird];
  });
  ASSERT_EQ(found.influences.size(), 3u);
  EXPECT_NEAR(found.influences[0].elasticity, 2, 1e-3);
  EXPECT_NEAR(found.influences[1].elasticity, 1, 1e-3);
  EXPECT_TRUE(std::isnan(found.influences[2].elasticity));
}

}  // namespace
}  // namespace penstock::model
