// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/totals.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "stats/layout.h"

namespace penstock::tools {
namespace {

using core::Op;

constexpr std::uint64_t kBegin = 1000;
constexpr std::chrono::hours kNow{100};
const ContainerName kPod{"0f3c9a52-7f5c-4d8a-9b1e-2c4d6e8f0a1b", std::string(64, 'a')};
const ContainerName kHost{};
const WayKey kBounce{"bounce", "stand_in", Op::read};

core::StatsSnapshot session(std::uint64_t id, std::uint64_t bytes, std::uint64_t opened = kBegin + 1) {
  core::StatsSnapshot snapshot;
  snapshot.id = id;
  snapshot.opened_ns = opened;
  snapshot.rows.push_back({"bounce", "stand_in", Op::read, bytes, bytes / 10});
  return snapshot;
}

TEST(TotalsTest, WhatSessionsMovedIsAddedUpByContainerAndForTheNode) {
  Totals totals(kBegin);
  totals.begin_look(kNow);
  totals.add(kPod, session(1, 100));
  totals.add(kPod, session(2, 200));
  totals.add(kHost, session(3, 1000));

  EXPECT_EQ(totals.containers().at(kPod).ways.at(kBounce).bytes, 300u);
  EXPECT_EQ(totals.containers().at(kPod).ways.at(kBounce).operations, 30u);
  EXPECT_EQ(totals.containers().at(kPod).sessions, 2u);
  EXPECT_EQ(totals.containers().at(kHost).ways.at(kBounce).bytes, 1000u);
  EXPECT_EQ(totals.node().at(kBounce).bytes, 1300u);
  EXPECT_EQ(totals.sessions(), 3u);
}

TEST(TotalsTest, ALaterLookCountsOnlyWhatIsNew) {
  Totals totals(kBegin);
  for (const std::uint64_t bytes : {100, 100, 250}) {
    totals.begin_look(kNow);
    totals.add(kPod, session(1, bytes));
  }

  EXPECT_EQ(totals.node().at(kBounce).bytes, 250u);
}

TEST(TotalsTest, WhatSavesCostIsAddedUpForTheNodeFromTheFirstLookOn) {
  core::StatsSnapshot older = session(1, 100, kBegin - 1), lying = session(2, 100);
  older.saves = {3, 3000, 30, 0, 0, 0, 0, 0};
  lying.saves = {1, std::uint64_t{1} << 60, 5, 0, 0, 0, 0, 0};
  Totals totals(kBegin);
  totals.begin_look(kNow);
  totals.add(kPod, older);
  totals.add(kHost, lying);
  older.saves = {4, 4000, 42, 7, 0, 0, 0, 9};
  totals.begin_look(kNow);
  totals.add(kPod, older);
  totals.add(kHost, lying);

  EXPECT_EQ(totals.saves(), (core::SaveNumbers{2, 1000, 17, 7, 0, 0, 0, 9}));
  EXPECT_EQ(totals.disbelieved(), 1u);
}

// A session with `requests` reads of 1 MiB that took 3 ms each.
core::StatsSnapshot measured(std::uint64_t id, std::uint64_t requests) {
  core::StatsSnapshot snapshot = session(id, requests << 20);
  core::StatsHistogram histogram{.path = "bounce", .op = Op::read};
  histogram.sizes.resize(core::kSizeBuckets);
  histogram.sizes[core::size_bucket(1 << 20)] = requests;
  histogram.latencies.resize(core::kLatencyBuckets);
  histogram.latencies[core::latency_bucket(3'000'000)] = requests;
  histogram.latency_sum = requests * 3'000'000;
  snapshot.histograms.push_back(histogram);
  return snapshot;
}

TEST(TotalsTest, SizesAndTimesOfRequestsAreAddedUpForTheNodeAndStayWhenAProcessEnds) {
  Totals totals(kBegin);
  totals.begin_look(kNow);
  totals.add(kPod, measured(1, 10));
  totals.add(kHost, measured(2, 5));
  totals.begin_look(kNow);
  totals.add(kPod, measured(1, 12));

  const RequestCounts& counts = totals.requests().at({"bounce", Op::read});
  EXPECT_EQ(counts.bytes, 17u << 20);
  EXPECT_EQ(counts.nanoseconds, 17u * 3'000'000);
  EXPECT_EQ(counts.sizes[5], 17u) << "of less than 4 MiB";
  EXPECT_EQ(counts.latencies[10], 17u) << "of less than 2^22 ns";
}

TEST(TotalsTest, TimesThatNoMachineCanHaveTakenAreNotBelieved) {
  Totals totals(kBegin);
  totals.begin_look(kNow);
  core::StatsSnapshot liar = measured(1, 10);
  liar.histograms[0].latency_sum = ~std::uint64_t{0};
  totals.add(kPod, liar);

  EXPECT_EQ(totals.requests().at({"bounce", Op::read}).nanoseconds, 0u);
  EXPECT_EQ(totals.disbelieved(), 1u);
}

TEST(TotalsTest, WhatAnEndedProcessMovedStaysCounted) {
  Totals totals(kBegin);
  totals.begin_look(kNow);
  totals.add(kPod, session(1, 100));
  totals.begin_look(kNow);
  totals.add(kPod, session(2, 10));

  EXPECT_EQ(totals.containers().at(kPod).ways.at(kBounce).bytes, 110u);
  EXPECT_EQ(totals.containers().at(kPod).sessions, 1u);
}

TEST(TotalsTest, WhatASessionMovedBeforeWeBeganMakesNoSumJump) {
  Totals totals(kBegin);
  totals.begin_look(kNow);
  totals.add(kPod, session(1, 1'000'000, kBegin - 1));
  EXPECT_EQ(totals.node().at(kBounce).bytes, 0u);

  totals.begin_look(kNow);
  totals.add(kPod, session(1, 1'000'005, kBegin - 1));
  EXPECT_EQ(totals.node().at(kBounce).bytes, 5u);
}

TEST(TotalsTest, ASegmentThatTwoProcessesHoldCountsOnce) {
  Totals totals(kBegin);
  totals.begin_look(kNow);
  totals.add(kPod, session(1, 100));
  totals.add(kHost, session(1, 100));

  EXPECT_EQ(totals.node().at(kBounce).bytes, 100u);
  EXPECT_EQ(totals.left_out(), 0u);
}

TEST(TotalsTest, NumbersThatFallTakeNothingBack) {
  Totals totals(kBegin);
  for (const std::uint64_t bytes : {100, 10, 20}) {
    totals.begin_look(kNow);
    totals.add(kPod, session(1, bytes));
  }

  EXPECT_EQ(totals.node().at(kBounce).bytes, 110u);
}

TEST(TotalsTest, WhatNoMachineCanMoveIsNotBelieved) {
  Totals totals(kBegin);
  totals.begin_look(kNow);
  totals.add(kPod, session(1, UINT64_MAX));
  totals.add(kPod, session(2, 100));

  EXPECT_EQ(totals.node().at(kBounce).bytes, 100u);
  EXPECT_EQ(totals.disbelieved(), 1u);
}

TEST(TotalsTest, NamesThatAreNoneOfOursShareOne) {
  Totals totals(kBegin);
  core::StatsSnapshot snapshot = session(1, 1);
  snapshot.rows.push_back({"a\"} 1\n", "stand_in", Op::read, 2, 0});
  snapshot.rows.push_back({"bounce", std::string(32, 'x'), Op::write, 4, 0});
  snapshot.rows.push_back({"", "stand_in", Op::read, 8, 0});

  totals.begin_look(kNow);
  totals.add(kPod, snapshot);

  const Ways& ways = totals.containers().at(kPod).ways;
  EXPECT_EQ(ways.size(), 3u);
  EXPECT_EQ(ways.at({kOther, "stand_in", Op::read}).bytes, 10u);
  EXPECT_EQ(ways.at({"bounce", kOther, Op::write}).bytes, 4u);
}

TEST(TotalsTest, WaysBeyondTheLimitAreAddedUpAsOther) {
  Totals totals(kBegin, {.ways = 4});
  core::StatsSnapshot snapshot = session(1, 1);
  for (int i = 0; i < 100; ++i) snapshot.rows.push_back({"bounce", "reason_" + std::to_string(i), Op::write, 1, 0});

  totals.begin_look(kNow);
  totals.add(kPod, snapshot);

  const Ways& ways = totals.containers().at(kPod).ways;
  EXPECT_LE(ways.size(), 6u);
  EXPECT_EQ(ways.at({kOther, kOther, Op::write}).bytes, 97u);
  EXPECT_GE(totals.folded(), 97u);
}

ContainerName container(int number) { return {"", std::to_string(number)}; }

TEST(TotalsTest, ContainersBeyondTheLimitAreAddedUpAsOther) {
  Totals totals(kBegin, {.containers = 3});
  totals.begin_look(kNow);
  for (int i = 0; i < 10; ++i) totals.add(container(i), session(static_cast<std::uint64_t>(i), 10));

  EXPECT_EQ(totals.containers().size(), 4u);
  EXPECT_EQ(totals.containers().at({kOther, kOther}).ways.at(kBounce).bytes, 70u);
  EXPECT_EQ(totals.node().at(kBounce).bytes, 100u);
}

TEST(TotalsTest, AContainerThatHasEndedGivesItsPlaceToANewOne) {
  Totals totals(kBegin, {.containers = 2});
  for (int i = 0; i < 10; ++i) {
    totals.begin_look(kNow);
    totals.add(container(i), session(static_cast<std::uint64_t>(i), 10));
  }

  EXPECT_EQ(totals.containers().size(), 2u);
  EXPECT_TRUE(totals.containers().contains(container(9)));
  EXPECT_EQ(totals.folded(), 0u);
  EXPECT_EQ(totals.node().at(kBounce).bytes, 100u);
}

TEST(TotalsTest, AContainerWithoutSessionsIsForgottenAfterAWhile) {
  Totals totals(kBegin, {.keep = std::chrono::minutes(5)});
  totals.begin_look(kNow);
  totals.add(kPod, session(1, 10));

  totals.begin_look(kNow + std::chrono::minutes(5));
  EXPECT_TRUE(totals.containers().contains(kPod));
  totals.begin_look(kNow + std::chrono::minutes(6));
  EXPECT_FALSE(totals.containers().contains(kPod));
  EXPECT_EQ(totals.node().at(kBounce).bytes, 10u);
}

TEST(TotalsTest, SessionsBeyondTheLimitAreLeftOutAndCountedAsSuch) {
  Totals totals(kBegin, {.sessions = 3});
  totals.begin_look(kNow);
  for (std::uint64_t i = 0; i < 10; ++i) totals.add(kPod, session(i, 10));
  EXPECT_EQ(totals.sessions(), 3u);
  EXPECT_EQ(totals.left_out(), 7u);

  totals.begin_look(kNow);
  totals.add(kPod, session(99, 10));
  EXPECT_EQ(totals.left_out(), 0u);
  EXPECT_EQ(totals.node().at(kBounce).bytes, 40u);
}

TEST(TotalsTest, WhateverSessionsSayNoSumFallsAndNoLimitIsPassed) {
  Totals totals(kBegin, {.sessions = 20, .containers = 5, .ways = 4, .node_ways = 8});
  std::mt19937_64 random(3);
  std::uint64_t before = 0;
  for (int look = 0; look < 300; ++look) {
    totals.begin_look(kNow + std::chrono::seconds(look));
    for (int i = 0; i < 30; ++i) {
      core::StatsSnapshot snapshot = session(random() % 40, random() >> (random() % 64), random() % 2000);
      for (int row = 0; row < 8; ++row) {
        snapshot.rows.push_back({"p" + std::to_string(random() % 9), "r", random() % 2 == 0 ? Op::read : Op::write,
                                 random() >> (random() % 64), random()});
      }
      for (int one = 0; one < 40; ++one) {
        core::StatsHistogram histogram{.path = "p" + std::to_string(one),
                                       .op = random() % 2 == 0 ? Op::read : Op::write};
        histogram.sizes = {random() >> (random() % 64)};
        histogram.latency_sum = random();
        snapshot.histograms.push_back(histogram);
      }
      totals.add(container(static_cast<int>(random() % 9)), snapshot);
    }
    std::uint64_t now = 0;
    for (const auto& [key, count] : totals.node()) now += count.bytes;
    ASSERT_GE(now, before);
    before = now;
    ASSERT_LE(totals.containers().size(), 6u);
    ASSERT_LE(totals.node().size(), 10u);
    ASSERT_LE(totals.requests().size(), 18u);
    ASSERT_LE(totals.sessions(), 20u);
    for (const auto& [name, one] : totals.containers()) ASSERT_LE(one.ways.size(), 6u);
  }
}

}  // namespace
}  // namespace penstock::tools
