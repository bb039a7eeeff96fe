// SPDX-License-Identifier: Apache-2.0

#include "stripe/layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::core {
namespace {

constexpr std::uint64_t kStripe = StripeLayout::kStripeUnit;

TEST(StripeLayoutTest, EveryByteHasOnePlaceAndItsMemberIsFilledWithoutGaps) {
  for (const std::uint32_t members : {1u, 2u, 3u, 32u}) {
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, kStripe - 1, kStripe, kStripe + 1,
                                     7 * kStripe + 5, members * kStripe, 5 * members * kStripe + 3 * kStripe + 1}) {
      const StripeLayout layout{size, kStripe, members};
      ASSERT_TRUE(layout.is_sane());
      std::vector<std::uint64_t> filled(members);
      for (std::uint64_t at = 0; at < size; at = std::min(layout.stripe_end(at), size)) {
        const std::uint32_t member = layout.member_at(at);
        ASSERT_EQ(layout.offset_in_member(at), filled[member]) << members << " " << at;
        ASSERT_EQ(layout.offset_of(member, filled[member]), at);
        filled[member] += std::min(layout.stripe_end(at), size) - at;
      }
      for (std::uint32_t i = 0; i < members; ++i)
        EXPECT_EQ(layout.member_bytes(i), filled[i]) << members << " " << size;
    }
  }
}

TEST(StripeLayoutTest, WithinAStripeOffsetsGoOn) {
  const StripeLayout layout{100 * kStripe, kStripe, 4};
  EXPECT_EQ(layout.member_at(5 * kStripe + 7), 1u);
  EXPECT_EQ(layout.offset_in_member(5 * kStripe + 7), kStripe + 7);
  EXPECT_EQ(layout.offset_of(1, kStripe + 7), 5 * kStripe + 7);
}

TEST(StripeLayoutTest, WhatMakesNoSenseIsNotSane) {
  for (const StripeLayout& layout :
       {StripeLayout{1, 0, 1}, StripeLayout{1, kStripe, 0}, StripeLayout{1, kStripe, 33},
        StripeLayout{1, kStripe + 512, 2}, StripeLayout{1, StripeLayout::kStripeMax * 2, 2},
        StripeLayout{UINT64_MAX, kStripe, 2}}) {
    EXPECT_FALSE(layout.is_sane());
  }
}

}  // namespace
}  // namespace penstock::core
