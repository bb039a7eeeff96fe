// SPDX-License-Identifier: Apache-2.0

#include "tools/gdsio/io_extents.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace penstock::tools {
namespace {

std::vector<Extent> all_of(IoPattern pattern, std::size_t most = 10000) {
  std::vector<Extent> found;
  Extent extent;
  for (IoExtents extents(pattern); found.size() < most && extents.next(extent);) found.push_back(extent);
  return found;
}

TEST(IoExtentsTest, ThreadsTogetherVisitEveryByteOnce) {
  for (const IoSizes sizes : {IoSizes{1000, 1000, 0}, IoSizes{7, 1000, 13}, IoSizes{4096, 4096, 0}}) {
    for (const unsigned threads : {1u, 3u, 16u, 100u}) {
      std::vector<int> visits(54321);
      for (unsigned thread = 0; thread < threads; ++thread) {
        for (const Extent& extent :
             all_of({.range = {99, visits.size()}, .sizes = sizes, .thread = thread, .threads = threads})) {
          ASSERT_GT(extent.size, 0u);
          ASSERT_LE(extent.size, sizes.largest);
          for (std::uint64_t i = 0; i < extent.size; ++i) ++visits.at(extent.offset - 99 + i);
        }
      }
      EXPECT_EQ(std::count(visits.begin(), visits.end(), 1), 54321) << threads;
    }
  }
}

TEST(IoExtentsTest, SizesGrowByTheStepAndBeginAgain) {
  const auto found = all_of({.range = {0, 1 << 20}, .sizes = {4, 11, 3}, .is_endless = true}, 7);
  std::vector<std::uint64_t> sizes;
  for (const Extent& extent : found) sizes.push_back(extent.size);
  EXPECT_EQ(sizes, (std::vector<std::uint64_t>{4, 7, 10, 4, 7, 10, 4}));
}

TEST(IoExtentsTest, RandomOnesStayInTheRangeAndComeToItsSize) {
  for (const bool unaligned : {false, true}) {
    std::uint64_t total = 0;
    std::set<std::uint64_t> offsets;
    bool has_odd = false;
    for (unsigned thread = 0; thread < 4; ++thread) {
      for (const Extent& extent : all_of({.range = {8192, 1 << 20},
                                  .sizes = {4096, 16384, 4096},
                                  .is_random = true,
                                  .is_unaligned = unaligned,
                                  .thread = thread,
                                  .threads = 4})) {
        EXPECT_GE(extent.offset, 8192u);
        EXPECT_LE(extent.offset + extent.size, 8192u + (1 << 20));
        has_odd = has_odd || extent.offset % 4096 != 0;
        offsets.insert(extent.offset);
        total += extent.size;
      }
    }
    EXPECT_EQ(total, 1u << 20);
    EXPECT_EQ(has_odd, unaligned);
    EXPECT_GT(offsets.size(), 50u);
  }
}

TEST(IoExtentsTest, TheSamePatternGivesTheSameExtents) {
  const IoPattern pattern{.range = {0, 1 << 20}, .sizes = {512, 512, 0}, .is_random = true, .seed = 5};
  const auto once = all_of(pattern), again = all_of(pattern);
  ASSERT_EQ(once.size(), again.size());
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(once[i].offset, again[i].offset);
}

TEST(IoExtentsTest, ARequestLargerThanTheRangeIsTheRange) {
  for (const bool random : {false, true}) {
    const auto found = all_of({.range = {10, 100}, .sizes = {4096, 4096, 0}, .is_random = random});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].offset, 10u);
    EXPECT_EQ(found[0].size, 100u);
  }
}

TEST(IoExtentsTest, AThreadWithoutAShareEndsAtOnceAlsoWhereItIsEndless) {
  EXPECT_TRUE(
      all_of({.range = {0, 100}, .sizes = {4096, 4096, 0}, .is_endless = true, .thread = 0, .threads = 2}).empty());
}

}  // namespace
}  // namespace penstock::tools
