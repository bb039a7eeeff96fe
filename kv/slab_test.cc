// SPDX-License-Identifier: Apache-2.0

#include "kv/slab.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "kv/format.h"

namespace penstock::kv {
namespace {

TEST(Slab, SlotsAreWholePagesAndAtMostA64thTooLarge) {
  for (std::uint64_t bytes = 0; bytes < 40'000'000; bytes += 1 + bytes / 3) {
    const std::uint64_t slot_bytes = Slab::slot_bytes_for(bytes);
    EXPECT_EQ(slot_bytes % kSlotAlign, 0u);
    EXPECT_GE(slot_bytes, bytes + kHeaderBytes);
    EXPECT_LE(static_cast<double>(slot_bytes), (1 + 1.0 / 64) * static_cast<double>(bytes + kHeaderBytes) + kSlotAlign)
        << bytes;
  }
}

TEST(Slab, NoTwoSlotsOverlapAndAllOfItCanBeUsedAgain) {
  Slab slab(std::uint64_t{20} << 20, 1 << 20);
  std::mt19937 random(1);
  std::map<std::uint64_t, std::uint64_t> used;  // The size of each slot in use, by its offset.
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t bytes = Slab::slot_bytes_for(random() % 300'000);
    if (random() % 2 == 0) {
      const auto slot_offset = slab.take(bytes);
      if (!slot_offset) continue;
      const auto next = used.lower_bound(*slot_offset);
      ASSERT_TRUE(next == used.end() || *slot_offset + bytes <= next->first);
      ASSERT_TRUE(next == used.begin() || std::prev(next)->first + std::prev(next)->second <= *slot_offset);
      ASSERT_LE(*slot_offset + bytes, slab.bytes());
      used[*slot_offset] = bytes;
    } else if (!used.empty()) {
      const auto one = std::next(used.begin(), static_cast<long>(random() % used.size()));
      slab.give_back(one->first);
      used.erase(one);
    }
  }
  for (const auto& [slot_offset, bytes] : used) slab.give_back(slot_offset);
  EXPECT_EQ(slab.used_bytes(), 0u);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(slab.take(1 << 20));
  EXPECT_FALSE(slab.take(1 << 20));
}

TEST(Slab, WhatAJournalClaimsIsNotBelieved) {
  Slab slab(8 << 20, 1 << 20);
  EXPECT_TRUE(slab.claim(64 << 10, 64 << 10));
  EXPECT_FALSE(slab.claim(64 << 10, 64 << 10));          // The slot is in use.
  EXPECT_FALSE(slab.claim(0, 32 << 10));                 // Its extent has another class.
  EXPECT_FALSE(slab.claim((1 << 20) + 4096, 64 << 10));  // It is between two slots.
  EXPECT_FALSE(slab.claim(8 << 20, 64 << 10));           // It is behind the slab's end.
  EXPECT_FALSE(slab.claim(~std::uint64_t{0}, 64 << 10));
  EXPECT_FALSE(slab.claim(2 << 20, 0));
  EXPECT_FALSE(slab.claim(2 << 20, ~std::uint64_t{4095}));
  EXPECT_FALSE(slab.claim(2 << 20, 10'000));
  EXPECT_FALSE(slab.claim((2 << 20) + 85 * 12'288, 12'288));  // It ends behind its extent.
  EXPECT_EQ(slab.used_bytes(), 64u << 10);
}

}  // namespace
}  // namespace penstock::kv
