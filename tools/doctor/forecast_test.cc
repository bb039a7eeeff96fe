// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/forecast.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

constexpr std::uint64_t kGb = 1'000'000'000;

Load load_of(std::uint64_t gb, std::uint64_t cached_gb) {
  return {gb * kGb, cached_gb * kGb, 1000 * kGb, 0.5, 8, "cat model/*"};
}

// A drive of 2 GB/s, a page cache and a link of 20.
Speeds slow_drive() { return {2e9, 20e9, 10e9, 25e9, 1.9e9, 18e9, 1e9, 5e9}; }

TEST(ForecastTest, WhatIsCachedAndWhatIsNotTakeTheirOwnTime) {
  const Forecast told = predict(load_of(40, 2), slow_drive(), {}, {});
  EXPECT_NEAR(told.seconds, 38 / 1.9 + 2 / 18.0, 1e-9);
  EXPECT_NEAR(told.cold_seconds, 20, 1e-9);
  EXPECT_NEAR(told.plain_seconds, 38 / 1.0 + 2 / 5.0, 1e-9);
}

TEST(ForecastTest, TheDriveBindsWhereTheWholeWayIsAsSlowAsTheDrive) {
  EXPECT_EQ(predict(load_of(40, 0), slow_drive(), {}, {}).binds, Binds::drive);
}

TEST(ForecastTest, OfACachedLoadThePageCacheOrTheLinkBinds) {
  EXPECT_EQ(predict(load_of(40, 40), slow_drive(), {}, {}).binds, Binds::page_cache);
  Speeds speeds = slow_drive();
  speeds.link = 12e9;
  speeds.warm = 11e9;
  EXPECT_EQ(predict(load_of(40, 40), speeds, {}, {}).binds, Binds::link);
}

TEST(ForecastTest, WhereNoPartIsSoSlowThePathBindsOrTheCpus) {
  Speeds speeds = slow_drive();
  speeds.warm = 8e9;
  EXPECT_EQ(predict(load_of(40, 40), speeds, {}, {}).binds, Binds::path);
  Load busy = load_of(40, 40);
  busy.cpus_busy = 7.5;
  EXPECT_EQ(predict(busy, speeds, {}, {}).binds, Binds::cpu);
}

TEST(ForecastTest, WhereAllCpusCopyOutOfThePageCacheTheyBind) {
  Load busy = load_of(40, 40);
  busy.cpus = 0.5;
  EXPECT_EQ(predict(busy, slow_drive(), {}, {}).binds, Binds::cpu);
  busy.cached = 0;
  EXPECT_EQ(predict(busy, slow_drive(), {}, {}).binds, Binds::drive);
}

TEST(ForecastTest, WhereTheCpusBindMoreOfThemAreProposedAndNoChangeThatSpendsThem) {
  Load busy = load_of(40, 40);
  busy.cpus = 0.5;
  busy.cpus_there = 2;
  const Forecast told = predict(busy, slow_drive(), {{"more CPU time", "x", 0, 36e9, Trial::Kind::more_cpu}}, {});
  ASSERT_EQ(told.changes.size(), 1u);
  EXPECT_EQ(told.changes[0].what, "let it use all CPUs of the machine");
  EXPECT_TRUE(told.changes[0].is_bound);
  EXPECT_NEAR(told.changes[0].seconds, 40 / 72.0, 1e-9);
}

TEST(ForecastTest, SettingsBindWhereWithoutThemItIsMuchQuicker) {
  const auto binds = [](double warm) {
    return predict(load_of(40, 40), slow_drive(), {{"none", "x", 0, warm, Trial::Kind::no_settings}}, {}).binds;
  };
  EXPECT_EQ(binds(24e9), Binds::settings);
  EXPECT_EQ(binds(20e9), Binds::page_cache);
}

TEST(ForecastTest, ChangesStandInTheOrderOfTheirGainAndThoseWithoutOneAreLeftOut) {
  const std::vector<Trial> trials = {{"a little", "x", 2.2e9, 0}, {"nothing", "y", 1.92e9, 0}, {"worse", "z", 1e9, 0}};
  const std::vector<Bound> bounds = {{"a better path", "w", 4e9, 0}};
  const Forecast told = predict(load_of(40, 0), slow_drive(), trials, bounds);
  ASSERT_EQ(told.changes.size(), 4u);
  EXPECT_EQ(told.changes[0].command, "cat model/*");
  EXPECT_NEAR(told.changes[0].seconds, 40 / 18.0, 1e-9);
  EXPECT_EQ(told.changes[1].what, "have a quicker drive, or lift what limits this one");
  EXPECT_NEAR(told.changes[1].seconds, 40 / 18.0, 1e-9);
  EXPECT_TRUE(told.changes[1].is_bound);
  EXPECT_EQ(told.changes[2].what, "a better path");
  EXPECT_TRUE(told.changes[2].is_bound);
  EXPECT_EQ(told.changes[3].what, "a little");
  EXPECT_NEAR(told.changes[3].seconds, 40 / 2.2, 1e-9);
  EXPECT_FALSE(told.changes[3].is_bound);
}

TEST(ForecastTest, ALoadThatIsLargerThanTheMemoryIsNotToBeCached) {
  Load load = load_of(40, 0);
  load.memory_available = 45 * kGb;
  const Forecast told = predict(load, slow_drive(), {}, {});
  ASSERT_EQ(told.changes.size(), 1u);
  EXPECT_NE(told.changes[0].command, load.read_all);
  EXPECT_EQ(told.left_out, "it does not fit into the page cache: 41.91 GiB of memory are available");
}

TEST(ForecastTest, WhetherTheIntervalHasAGainInItDecides) {
  EXPECT_EQ(judge({1.5, 1.2, 1.9, ""}), Judged::gain);
  EXPECT_EQ(judge({1.5, 1.01, 2.2, ""}), Judged::unknown) << "so little may be chance";
  EXPECT_EQ(judge({1, 0.97, 1.03, ""}), Judged::none);
}

TEST(ForecastTest, AChangeOfWhichNothingCanBeToldIsADoubtAndNoCounsel) {
  Trial trial{"four requests", "x", 0, 0};
  trial.cold_doubt = Ratio{1.2, 0.8, 1.8, ""};
  Load load = load_of(40, 0);
  load.caching = Ratio{1.3, 0.7, 2.4, ""};
  Speeds speeds = slow_drive();
  speeds.warm = speeds.cold;

  const Forecast told = predict(load, speeds, {trial}, {});

  EXPECT_TRUE(told.changes.empty());
  ASSERT_EQ(told.doubts.size(), 2u);
  EXPECT_EQ(told.doubts[0].what, "have all of it in the page cache");
  EXPECT_EQ(told.doubts[1].what, "four requests");
}

TEST(ForecastTest, WhatBindsIsUnknownWhereTheIntervalDoesNotTell) {
  Load load = load_of(40, 0);
  load.of_part = Ratio{0.8, 0.5, 1.3, ""};
  EXPECT_EQ(predict(load, slow_drive(), {}, {}).binds, Binds::unknown);
  load.of_part = Ratio{0.9, 0.85, 0.95, ""};
  EXPECT_EQ(predict(load, slow_drive(), {}, {}).binds, Binds::drive);
}

TEST(ForecastTest, OfAFewBytesNoChangeIsLookedFor) {
  Load load = load_of(0, 0);
  load.bytes = load.cached = 3;
  load.cpus_busy = 5.4 * load.cpus;
  const Forecast told = predict(load, slow_drive(), {{"four requests", "x", 9e9, 90e9}}, {});
  EXPECT_TRUE(told.is_brief);
  EXPECT_EQ(told.binds, Binds::unknown) << "CPU time is counted in ticks that are longer than such a load";
  EXPECT_TRUE(told.changes.empty() && told.doubts.empty());
}

TEST(ForecastTest, WhatWasNotMeasuredIsNotKnown) {
  Speeds speeds = slow_drive();
  speeds.plain_cold = 0;
  EXPECT_EQ(predict(load_of(40, 2), speeds, {}, {}).plain_seconds, 0);
  EXPECT_GT(predict(load_of(40, 40), speeds, {}, {}).plain_seconds, 0);
}

}  // namespace
}  // namespace penstock::tools
