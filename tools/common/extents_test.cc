// SPDX-License-Identifier: Apache-2.0

#include "tools/common/extents.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

namespace penstock::tools {
namespace {

std::vector<Extent> visited(Extents extents, std::size_t most) {
  std::vector<Extent> all;
  Extent extent;
  while (all.size() < most && extents.next(extent)) all.push_back(extent);
  return all;
}

TEST(Extents, SequentialThreadsTileTheRange) {
  for (const std::uint64_t size : {1u, 4095u, 4096u, 40'960u, 41'000u}) {
    for (const unsigned threads : {1u, 2u, 3u, 7u}) {
      const Range range{512, size, 4096};
      std::map<std::uint64_t, std::uint64_t> pieces;
      for (unsigned thread = 0; thread < threads; ++thread) {
        for (const Extent& extent : visited(Extents(range, false, false, thread, threads, 1), 1000)) {
          EXPECT_TRUE(pieces.emplace(extent.offset, extent.size).second);
        }
      }
      std::uint64_t position = 512;
      for (const auto& [offset, length] : pieces) {
        EXPECT_EQ(offset, position);
        position += length;
      }
      EXPECT_EQ(position, 512 + size) << threads;
    }
  }
}

TEST(Extents, EndlessSequentialStartsOverAtItsShare) {
  const std::vector<Extent> all = visited(Extents({0, 8 * 4096, 4096}, false, true, 1, 2, 1), 6);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[0].offset, 4u * 4096);
  EXPECT_EQ(all[3].offset, 7u * 4096);
  EXPECT_EQ(all[4].offset, 4u * 4096);
}

TEST(Extents, AThreadWithoutAShareEndsAlsoWhenEndless) {
  EXPECT_TRUE(visited(Extents({0, 4096, 4096}, false, true, 0, 2, 1), 10).empty());
}

TEST(Extents, RandomDrawsWholeBlocksInsideTheRange) {
  const Range range{8192, 16 * 4096 + 100, 4096};
  std::set<std::uint64_t> offsets;
  for (const Extent& extent : visited(Extents(range, true, true, 0, 1, 5), 2000)) {
    EXPECT_EQ(extent.size, 4096u);
    EXPECT_EQ((extent.offset - 8192) % 4096, 0u);
    EXPECT_LT(extent.offset, 8192u + 16 * 4096);
    offsets.insert(extent.offset);
  }
  EXPECT_EQ(offsets.size(), 16u);
}

TEST(Extents, RandomIsUniform) {
  std::map<std::uint64_t, int> counts;
  for (const Extent& extent : visited(Extents({0, 10 * 4096, 4096}, true, true, 0, 1, 9), 100'000)) {
    ++counts[extent.offset];
  }
  for (const auto& [offset, count] : counts) EXPECT_NEAR(count, 10'000, 500) << offset;
}

TEST(Extents, TheSeedDecidesAndThreadsDiffer) {
  const Range range{0, 1ull << 30, 4096};
  const auto first = [&](unsigned thread, std::uint64_t seed) {
    return visited(Extents(range, true, false, thread, 2, seed), 1)[0].offset;
  };
  EXPECT_EQ(first(0, 1), first(0, 1));
  EXPECT_NE(first(0, 1), first(1, 1));
  EXPECT_NE(first(0, 1), first(0, 2));
}

TEST(Extents, ARangeBelowOneBlockIsOneShortBlock) {
  const std::vector<Extent> all = visited(Extents({100, 50, 4096}, true, false, 0, 1, 1), 10);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].offset, 100u);
  EXPECT_EQ(all[0].size, 50u);
}

TEST(FileExtents, VisitEveryBlockOfEveryFileInOrderAndReachFromNoneIntoTheNext) {
  const auto blocks = std::make_shared<const FileBlocks>(std::vector<Range>{{0, 25, 10}, {7, 10, 10}, {0, 1, 10}});
  FileExtents extents(blocks, false, false, 0, 1, 1);
  std::vector<std::vector<std::uint64_t>> seen;
  for (Extent extent; extents.next(extent);) seen.push_back({extent.file, extent.offset, extent.size});
  EXPECT_EQ(seen,
            (std::vector<std::vector<std::uint64_t>>{{0, 0, 10}, {0, 10, 10}, {0, 20, 5}, {1, 7, 10}, {2, 0, 1}}));
}

TEST(FileExtents, OfSeveralThreadsShareTheBlocks) {
  const auto blocks = std::make_shared<const FileBlocks>(std::vector<Range>{{0, 30, 10}, {0, 30, 10}});
  std::set<std::pair<std::size_t, std::uint64_t>> seen;
  for (unsigned thread = 0; thread < 4; ++thread) {
    FileExtents extents(blocks, false, false, thread, 4, 1);
    for (Extent extent; extents.next(extent);) EXPECT_TRUE(seen.emplace(extent.file, extent.offset).second);
  }
  EXPECT_EQ(seen.size(), 6u);
}

}  // namespace
}  // namespace penstock::tools
