// SPDX-License-Identifier: Apache-2.0

#include "device/buddy_allocator.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace penstock::core {
namespace {

TEST(BuddyAllocatorTest, TheWholeIsOnePart) {
  BuddyAllocator buddy_allocator(5);
  EXPECT_EQ(buddy_allocator.take(6), std::nullopt);
  EXPECT_EQ(buddy_allocator.take(5), 0u);
  EXPECT_EQ(buddy_allocator.take(0), std::nullopt);
  buddy_allocator.give_back(0, 5);
  EXPECT_EQ(buddy_allocator.take(5), 0u);
}

TEST(BuddyAllocatorTest, OneUnitIsAWholeToo) {
  BuddyAllocator buddy_allocator(0);
  EXPECT_EQ(buddy_allocator.take(0), 0u);
  EXPECT_EQ(buddy_allocator.take(0), std::nullopt);
}

TEST(BuddyAllocatorTest, WhatIsGivenBackJoinsItsNeighbours) {
  BuddyAllocator buddy_allocator(4);
  for (std::uint64_t unit = 0; unit < 16; ++unit) ASSERT_EQ(buddy_allocator.take(0), unit);
  for (const std::uint64_t unit : {3, 0, 2}) buddy_allocator.give_back(unit, 0);
  EXPECT_EQ(buddy_allocator.take(2), std::nullopt) << "unit 1 is still taken";
  buddy_allocator.give_back(1, 0);
  EXPECT_EQ(buddy_allocator.take(2), 0u);
}

TEST(BuddyAllocatorTest, ASmallPartBreaksUpTheSmallestThatWillDo) {
  BuddyAllocator buddy_allocator(4);
  ASSERT_EQ(buddy_allocator.take(3), 0u);
  ASSERT_EQ(buddy_allocator.take(1), 8u);
  buddy_allocator.give_back(0, 3);  // Free: 0 to 7, 10 and 11, 12 to 15.
  EXPECT_EQ(buddy_allocator.take(0), 10u);
  EXPECT_EQ(buddy_allocator.take(0), 11u);
  EXPECT_EQ(buddy_allocator.take(0), 12u);
  EXPECT_EQ(buddy_allocator.take(3), 0u);
}

// Also if the half that contains it has larger free parts as well.
TEST(BuddyAllocatorTest, TheSmallestIsFoundWhereverItLies) {
  BuddyAllocator buddy_allocator(4);
  for (std::uint64_t unit = 0; unit < 16; ++unit) ASSERT_EQ(buddy_allocator.take(0), unit);
  for (const std::uint64_t unit : {1, 4, 5, 6, 7, 8, 9}) buddy_allocator.give_back(unit, 0);
  EXPECT_EQ(buddy_allocator.free_orders(), 0b111u);
  EXPECT_EQ(buddy_allocator.take(0), 1u);
  EXPECT_EQ(buddy_allocator.take(1), 8u);
  EXPECT_EQ(buddy_allocator.free_orders(), 0b100u);
}

TEST(BuddyAllocatorTest, PartsAreAlignedAndNeverOverlapAndAllComesBackTogether) {
  constexpr unsigned kOrderMax = 8;
  struct Part {
    std::uint64_t unit;
    unsigned order;
  };
  BuddyAllocator buddy_allocator(kOrderMax);
  std::vector<bool> taken(1u << kOrderMax);
  std::vector<Part> parts;
  std::mt19937 random(7);
  const auto mark = [&](const Part& part, bool as) {
    for (std::uint64_t i = part.unit; i < part.unit + (1u << part.order); ++i) {
      ASSERT_LT(i, taken.size());
      ASSERT_NE(taken[i], as);
      taken[i] = as;
    }
  };
  const auto give_back = [&](std::size_t which) {
    const Part part = parts[which];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(which));
    mark(part, false);
    buddy_allocator.give_back(part.unit, part.order);
  };
  // True if there is an aligned run of free units.
  const auto has_room = [&](unsigned order) {
    for (std::size_t at = 0; at < taken.size(); at += std::size_t{1} << order) {
      bool is_free = true;
      for (std::size_t i = at; i < at + (std::size_t{1} << order); ++i) is_free = is_free && !taken[i];
      if (is_free) return true;
    }
    return false;
  };
  for (int step = 0; step < 20'000; ++step) {
    const auto order = static_cast<unsigned>(random() % (kOrderMax + 1));
    if (random() % 2 == 0 && !parts.empty()) {
      give_back(random() % parts.size());
      continue;
    }
    const bool expected = has_room(order);
    ASSERT_EQ(buddy_allocator.free_orders() >> order != 0, expected);
    const auto unit = buddy_allocator.take(order);
    ASSERT_EQ(unit.has_value(), expected) << "order " << order;
    if (!unit) continue;
    ASSERT_EQ(*unit % (1u << order), 0u);
    parts.push_back({*unit, order});
    mark(parts.back(), true);
  }
  while (!parts.empty()) give_back(0);
  EXPECT_EQ(buddy_allocator.take(kOrderMax), 0u);
}

}  // namespace
}  // namespace penstock::core
