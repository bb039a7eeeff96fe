// SPDX-License-Identifier: Apache-2.0

#include "kv/pace.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace penstock::kv {
namespace {

constexpr double kEachGet = 200e-6, kEachByte = 1 / 3e9;

double takes(std::uint64_t bytes) { return kEachGet + kEachByte * static_cast<double>(bytes); }

TEST(PaceTest, NothingIsKnownBeforeTheFirst) {
  Pace pace;
  EXPECT_FALSE(pace.seconds(1 << 20, 0));
  pace.add(0, 0, 1);
  EXPECT_FALSE(pace.seconds(1 << 20, 0));
}

TEST(PaceTest, OfOneSizeOthersTakeInProportion) {
  Pace pace;
  for (int i = 0; i < 100; ++i) pace.add(1 << 20, 0, 1e-3);
  EXPECT_NEAR(*pace.seconds(1 << 20, 0), 1e-3, 1e-9);
  EXPECT_NEAR(*pace.seconds(2 << 20, 0), 2e-3, 1e-9);
}

TEST(PaceTest, TwoSizesTellWhatAGetTakesAndWhatAByte) {
  Pace pace;
  for (int i = 0; i < 10; ++i) {
    pace.add(16 << 10, 0, takes(16 << 10));
    pace.add(64 << 20, 0, takes(64 << 20));
  }
  for (const std::uint64_t bytes : {4u << 10, 1u << 20, 256u << 20}) {
    EXPECT_NEAR(*pace.seconds(bytes, 0), takes(bytes), 0.01 * takes(bytes)) << bytes;
  }
}

TEST(PaceTest, NoiseIsAveraged) {
  Pace pace;
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t bytes = std::uint64_t{4096} << random() % 14;
    pace.add(bytes, 0, takes(bytes) * std::uniform_real_distribution(0.8, 1.2)(random));
  }
  for (const std::uint64_t bytes : {16u << 10, 1u << 20, 32u << 20}) {
    EXPECT_NEAR(*pace.seconds(bytes, 0), takes(bytes), 0.15 * takes(bytes)) << bytes;
  }
}

TEST(PaceTest, ADriveThatBecomesSlowIsNoticed) {
  Pace pace;
  for (int i = 0; i < 1000; ++i) pace.add(1 << 20, 0, 1e-3);
  for (int i = 0; i < 60; ++i) pace.add(1 << 20, 0, 10e-3);
  EXPECT_GT(*pace.seconds(1 << 20, 0), 9e-3);
}

// Gets of some sizes, while between none and 16 MiB of others are under way.
template <typename Takes>
void add_with_queues(Pace& pace, const std::vector<std::uint64_t>& sizes, Takes&& takes_with) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t bytes = sizes[random() % sizes.size()], queued = random() % 17 << 20;
    pace.add(bytes, queued, takes_with(bytes, queued) * std::uniform_real_distribution(0.95, 1.05)(random));
  }
}

TEST(PaceTest, WhereADriveDoesOneAfterTheOtherTheQueueCounts) {
  const auto behind = [](std::uint64_t bytes, std::uint64_t queued) { return takes(bytes + queued); };
  for (const auto& sizes : {std::vector<std::uint64_t>{1 << 20}, {64 << 10, 1 << 20, 8 << 20}}) {
    Pace pace;
    add_with_queues(pace, sizes, behind);
    for (const std::uint64_t queued : {0u, 4u << 20, 16u << 20, 64u << 20})
      EXPECT_NEAR(*pace.seconds(1 << 20, queued), behind(1 << 20, queued), 0.2 * behind(1 << 20, queued)) << queued;
  }
}

TEST(PaceTest, WhereRequestsDoNotWaitForEachOtherTheQueueDoesNotCount) {
  Pace pace;
  add_with_queues(pace, {64 << 10, 1 << 20, 8 << 20}, [](std::uint64_t bytes, std::uint64_t) { return takes(bytes); });
  for (const std::uint64_t queued : {0u, 16u << 20})
    EXPECT_NEAR(*pace.seconds(8 << 20, queued), takes(8 << 20), 0.2 * takes(8 << 20)) << queued;
}

TEST(PaceTest, AQueueOfWhichNothingIsKnownCountsAsTheGetsOwnBytes) {
  Pace pace;
  for (int i = 0; i < 100; ++i) pace.add(1 << 20, 0, 1e-3);
  EXPECT_NEAR(*pace.seconds(1 << 20, 3 << 20), 4e-3, 1e-9);
}

TEST(PaceTest, NothingTakesLessThanNoTime) {
  Pace falls, rises;
  for (int i = 0; i < 10; ++i) {
    falls.add(4 << 10, 0, 9e-3), falls.add(64 << 20, 0, 1e-3);  // Large gets are faster.
    rises.add(1 << 20, 0, 1e-6), rises.add(64 << 20, 0, 1);     // Nothing is left for a get without bytes.
  }
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{1} << 20, std::uint64_t{1} << 40}) {
    EXPECT_GT(*falls.seconds(bytes, 0), 0) << bytes;
    EXPECT_GT(*rises.seconds(bytes, 0), 0) << bytes;
  }
  Pace waits;  // A line through these is below 0 without a queue.
  waits.add(1 << 20, 8 << 20, 1e-3), waits.add(1 << 20, 64 << 20, 1);
  EXPECT_GT(*waits.seconds(1 << 20, 0), 0);
}

}  // namespace
}  // namespace penstock::kv
