// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/event_queue.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace penstock::model {
namespace {

TEST(EventQueue, GivesEventsInTheOrderOfTheirTimesWhateverTheOrderTheyCameIn) {
  EventQueue queue;
  std::mt19937_64 random(7);
  for (int i = 0; i < 10000; ++i) queue.push(random() % 100000, 0);

  Picoseconds last = 0;
  std::size_t count = 0;
  for (; !queue.empty(); ++count) {
    const Event event = queue.pop();
    ASSERT_LE(last, event.time);
    last = event.time;
  }

  EXPECT_EQ(count, 10000U);
}

TEST(EventQueue, GivesEventsOfOneTimeInTheOrderOfTheirMaking) {
  EventQueue queue;
  for (std::uint32_t i = 0; i < 1000; ++i) queue.push(i % 2, i);

  std::uint32_t expected = 0;
  for (; expected < 1000; expected += 2) ASSERT_EQ(queue.pop().what, expected);
  for (expected = 1; expected < 1000; expected += 2) ASSERT_EQ(queue.pop().what, expected);
}

TEST(EventQueue, KeepsItsOrderWhenTheOrderNumberWraps) {
  const Event before{5, UINT32_MAX, 0};
  const Event after{5, 0, 0};

  EXPECT_TRUE(before.is_before(after));
  EXPECT_FALSE(after.is_before(before));
}

TEST(EventQueue, CountsPicosecondsWithoutRoundingAway) {
  EXPECT_EQ(to_picoseconds(1e-12), 1U);
  EXPECT_EQ(to_picoseconds(3600), 3600ULL * 1000000000000ULL);
  EXPECT_DOUBLE_EQ(to_seconds(to_picoseconds(0.25)), 0.25);
}

TEST(EventQueue, TimesBeyondAllMeasureDoNotWrapAround) {
  EXPECT_EQ(to_picoseconds(HUGE_VAL), kForever);
  EXPECT_EQ(to_picoseconds(NAN), kForever);
  EXPECT_GT(4 * kForever - 1, kForever);
}

}  // namespace
}  // namespace penstock::model
