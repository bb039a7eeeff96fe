// SPDX-License-Identifier: Apache-2.0

#include "path/pagecache/registration_costs.h"

#include <gtest/gtest.h>

namespace penstock::core {
namespace {

constexpr std::uint64_t kExtent = RegistrationCosts::kExtentBytes;
constexpr std::uint64_t kLarge = 4 * kExtent;
constexpr std::uint64_t kMebibytes = kExtent >> 20;
constexpr std::uint64_t kCpu = kMebibytes * 170'000;  // By the first guess.
constexpr FileRange kRead{Op::read, 0, kLarge};

// Often enough to outweigh the first guess.
template <typename Learn>
void teach(Learn learn) {
  for (int i = 0; i < 60; ++i) learn();
}

TEST(RegistrationCostsTest, ASavingIsWhatBouncingTakesOverFetching) {
  RegistrationCosts costs(0);
  teach([&] { costs.learn_bounce(kLarge, kExtent, kMebibytes * 50'000, kCpu); });
  teach([&] { costs.learn_fetch(kLarge, kExtent, kMebibytes * 20'000); });
  EXPECT_NEAR(static_cast<double>(costs.saving(kRead, kExtent, false)), kMebibytes * 30'000, kMebibytes * 100);
}

TEST(RegistrationCostsTest, WhereBouncingIsAsQuickNothingButCpuIsSaved) {
  RegistrationCosts thrifty(1), hasty(0);
  for (RegistrationCosts* costs : {&thrifty, &hasty}) {
    teach([&] { costs->learn_bounce(kLarge, kExtent, kMebibytes * 10'000, kCpu); });
  }
  EXPECT_EQ(hasty.saving(kRead, kExtent, false), 0);
  EXPECT_GT(thrifty.saving(kRead, kExtent, false), 0);
}

TEST(RegistrationCostsTest, RequestsOfOtherSizesAreBouncedAtTheirOwnCosts) {
  RegistrationCosts costs(0);
  const std::int64_t before = costs.saving({Op::read, 0, 1 << 20}, 1 << 20, false);
  teach([&] { costs.learn_bounce(kLarge, kExtent, kMebibytes * 500'000, kCpu); });
  EXPECT_EQ(costs.saving({Op::read, 0, 1 << 20}, 1 << 20, false), before);
}

TEST(RegistrationCostsTest, ThePriceIsWhatRegisteringAddsToAFetchWhereTheyOverlap) {
  RegistrationCosts costs(0);
  teach([&] { costs.learn_registering(kMebibytes * 21'000); });
  teach([&] { costs.learn_fetch(kLarge, kExtent, kMebibytes * 20'000); });
  teach([&] { costs.learn_first_fetch(kLarge, kExtent, kMebibytes * 26'000); });
  EXPECT_NEAR(static_cast<double>(costs.break_even(kLarge, kExtent, false)), kMebibytes * 6'000, kMebibytes * 100);
}

TEST(RegistrationCostsTest, ForLittleOfAnExtentRegisteringIsPaidInFull) {
  RegistrationCosts costs(0);
  teach([&] { costs.learn_registering(kMebibytes * 40'000); });
  EXPECT_GT(costs.break_even(1 << 20, 1 << 20, false), costs.break_even(kLarge, kExtent, false));
}

TEST(RegistrationCostsTest, CpuThatCountsMakesRegistrationsDearerAndSavingsLarger) {
  const RegistrationCosts hasty(0), thrifty(4);
  EXPECT_GT(thrifty.break_even(kLarge, kExtent, false), hasty.break_even(kLarge, kExtent, false));
  EXPECT_GT(thrifty.saving(kRead, kExtent, false), hasty.saving(kRead, kExtent, false));
}

TEST(RegistrationCostsTest, ASmallRequestPaysForThoseItHoldsUpAndNotForTheWholeTime) {
  const RegistrationCosts costs(0);
  EXPECT_LT(costs.break_even(4096, 4096, true), costs.break_even(4096, 4096, false) / 10);
}

TEST(RegistrationCostsTest, WhatDoesNotOverlapSaysNothingOfFetching) {
  RegistrationCosts costs(0);
  const std::int64_t before = costs.break_even(kLarge, kExtent, false);
  teach([&] { costs.learn_first_fetch(kExtent, kExtent, kMebibytes * 900'000); });
  teach([&] { costs.learn_fetch(kExtent, kExtent, kMebibytes * 900'000); });
  EXPECT_EQ(costs.break_even(kLarge, kExtent, false), before);
}

TEST(RegistrationCostsTest, WhatBouncingTakesOfTheCpusIsSavedByItsWeight) {
  RegistrationCosts costs(1);
  teach([&] { costs.learn_bounce(kLarge, kExtent, kMebibytes * 10'000, kMebibytes * 40'000); });
  EXPECT_NEAR(static_cast<double>(costs.saving(kRead, kExtent, false)), kMebibytes * 40'000, kMebibytes * 100);
}

TEST(RegistrationCostsTest, WhatIsNotMeasuredTakesTwiceAsLongOnCpusThatTakeTwiceAsLongToBounce) {
  constexpr FileRange kWrite{Op::write, 0, kLarge};
  const RegistrationCosts guessed(0);
  RegistrationCosts slow(0);

  teach([&] { slow.learn_bounce(kLarge, kExtent, kMebibytes * 22'000, 2 * kCpu); });

  const auto ratio = [&](const FileRange& request, std::uint64_t bytes, bool small) {
    return static_cast<double>(slow.saving(request, bytes, small)) /
           static_cast<double>(guessed.saving(request, bytes, small));
  };
  EXPECT_NEAR(ratio({Op::read, 0, 4096}, 4096, true), 2, 0.01);
  EXPECT_NEAR(ratio({Op::write, 0, 4096}, 4096, true), 2, 0.01);
  EXPECT_GT(ratio(kWrite, kExtent, false), 2);  // The fetch time, which is subtracted, is unchanged.
}

TEST(RegistrationCostsTest, OneDisturbedMeasurementDoesNotUpsetIt) {
  RegistrationCosts costs(0);
  costs.learn_bounce(kLarge, kExtent, kMebibytes * 22'000, kCpu);
  const std::int64_t before = costs.saving(kRead, kExtent, false);
  costs.learn_bounce(kLarge, kExtent, kMebibytes * 44'000, kCpu);  // Twice the known cost.
  const std::int64_t after = costs.saving(kRead, kExtent, false);
  EXPECT_GT(after, before);
  EXPECT_LT(after, before + static_cast<std::int64_t>(kMebibytes) * 6'000);
}

TEST(RegistrationCostsTest, WhatIsQuickerThanWasKnownIsBelievedAtOnce) {
  RegistrationCosts costs(0);
  costs.learn_fetch(kLarge, kExtent, kMebibytes * 10'000);
  costs.learn_bounce(kLarge, kExtent, kMebibytes * 12'000, kCpu);
  EXPECT_NEAR(static_cast<double>(costs.saving(kRead, kExtent, false)), kMebibytes * 2'000, kMebibytes * 10);
}

TEST(RegistrationCostsTest, WhatWasSlowIsTriedAgainAfterMuchBouncing) {
  RegistrationCosts costs(0);
  const std::int64_t before = costs.break_even(kLarge, kExtent, false);
  teach([&] { costs.learn_first_fetch(kLarge, kExtent, kMebibytes * 60'000); });
  ASSERT_GT(costs.break_even(kLarge, kExtent, false), 2 * before);
  for (int i = 0; i < 300; ++i) costs.learn_bounce(kLarge, kExtent, kMebibytes * 22'000, kCpu);
  EXPECT_LT(costs.break_even(kLarge, kExtent, false), before + before / 10);
}

// Two processes, each with a GPU, 2026-11-22: registering takes longer than it does alone, and so does bouncing.
TEST(RegistrationCostsTest, WhereOthersAreBusyALargeReadIsRegisteredAsBefore) {
  RegistrationCosts costs(0.1);
  teach([&] { costs.learn_registering(kMebibytes * 45'000); });
  teach([&] { costs.learn_first_fetch(kLarge, kExtent, kMebibytes * 42'000); });
  EXPECT_GT(costs.saving(kRead, kExtent, false), costs.break_even(kLarge, kExtent, false));
}

// One process with two GPUs, 2026-11-26: 18.5 GB/s each, and 13.5 by bouncing, at three times the CPU.
TEST(RegistrationCostsTest, WhereCpuCountsADearTrialIsMadeOnce) {
  RegistrationCosts costs(0.1);
  teach([&] { costs.learn_registering(kMebibytes * 54'000); });
  teach([&] { costs.learn_first_fetch(kLarge, kExtent, kMebibytes * 54'000); });
  ASSERT_LT(costs.saving(kRead, kExtent, false), costs.break_even(kLarge, kExtent, false));
  costs.learn_bounce(kLarge, kExtent, kMebibytes * 74'000, kCpu);
  EXPECT_GT(costs.saving(kRead, kExtent, false), costs.break_even(kLarge, kExtent, false));
}

// One H200, 2026-11-29: parts of a model of 48 MiB each, four at once, came at 18 GB/s where they were registered, and
// at 44 where they were bounced.
TEST(RegistrationCostsTest, AShortReadOfNewPagesIsBouncedWhereBouncingIsAsQuickAsFetching) {
  constexpr FileRange kShort{Op::read, 0, kExtent + kExtent / 2};
  const auto is_worth_it = [&](std::uint64_t bounced_in) {
    RegistrationCosts costs(0.1);
    costs.learn_bounce(kShort.size, kShort.size, (kShort.size >> 20) * bounced_in, 0);
    return costs.saving(kShort, kExtent / 2, false) >= costs.break_even(kShort.size, kExtent / 2, false);
  };
  EXPECT_FALSE(is_worth_it(22'700));
  EXPECT_TRUE(is_worth_it(4 * 22'700)) << "the whole time of each of the four";
}

// 14 GB/s, where bouncing gives 45.
TEST(RegistrationCostsTest, SmallFoliosAreBounced) {
  RegistrationCosts costs(0.1);
  teach([&] { costs.learn_registering(kMebibytes * 75'000); });
  teach([&] { costs.learn_first_fetch(kLarge, kExtent, kMebibytes * 75'000); });
  EXPECT_LT(costs.saving(kRead, kExtent, false), costs.break_even(kLarge, kExtent, false));
}

}  // namespace
}  // namespace penstock::core
