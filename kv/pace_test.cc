// SPDX-License-Identifier: Apache-2.0

#include "kv/pace.h"

#include <gtest/gtest.h>

#include <random>

namespace penstock::kv {
namespace {

constexpr double kEachGet = 200e-6, kEachByte = 1 / 3e9;

double takes(std::uint64_t bytes) { return kEachGet + kEachByte * static_cast<double>(bytes); }

TEST(PaceTest, NothingIsKnownBeforeTheFirst) {
  Pace pace;
  EXPECT_FALSE(pace.seconds(1 << 20));
  pace.add(0, 1);
  EXPECT_FALSE(pace.seconds(1 << 20));
}

TEST(PaceTest, OfOneSizeOthersTakeInProportion) {
  Pace pace;
  for (int i = 0; i < 100; ++i) pace.add(1 << 20, 1e-3);
  EXPECT_NEAR(*pace.seconds(1 << 20), 1e-3, 1e-9);
  EXPECT_NEAR(*pace.seconds(2 << 20), 2e-3, 1e-9);
}

TEST(PaceTest, TwoSizesTellWhatAGetTakesAndWhatAByte) {
  Pace pace;
  for (int i = 0; i < 10; ++i) {
    pace.add(16 << 10, takes(16 << 10));
    pace.add(64 << 20, takes(64 << 20));
  }
  for (const std::uint64_t bytes : {4u << 10, 1u << 20, 256u << 20}) {
    EXPECT_NEAR(*pace.seconds(bytes), takes(bytes), 0.01 * takes(bytes)) << bytes;
  }
}

TEST(PaceTest, NoiseIsAveraged) {
  Pace pace;
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t bytes = std::uint64_t{4096} << random() % 14;
    pace.add(bytes, takes(bytes) * std::uniform_real_distribution(0.8, 1.2)(random));
  }
  for (const std::uint64_t bytes : {16u << 10, 1u << 20, 32u << 20}) {
    EXPECT_NEAR(*pace.seconds(bytes), takes(bytes), 0.15 * takes(bytes)) << bytes;
  }
}

TEST(PaceTest, ADriveThatBecomesSlowIsNoticed) {
  Pace pace;
  for (int i = 0; i < 1000; ++i) pace.add(1 << 20, 1e-3);
  for (int i = 0; i < 60; ++i) pace.add(1 << 20, 10e-3);
  EXPECT_GT(*pace.seconds(1 << 20), 9e-3);
}

TEST(PaceTest, NothingTakesLessThanNoTime) {
  Pace falls, rises;
  for (int i = 0; i < 10; ++i) {
    falls.add(4 << 10, 9e-3), falls.add(64 << 20, 1e-3);  // Large gets are faster.
    rises.add(1 << 20, 1e-6), rises.add(64 << 20, 1);     // Nothing is left for a get without bytes.
  }
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{1} << 20, std::uint64_t{1} << 40}) {
    EXPECT_GT(*falls.seconds(bytes), 0) << bytes;
    EXPECT_GT(*rises.seconds(bytes), 0) << bytes;
  }
}

}  // namespace
}  // namespace penstock::kv
