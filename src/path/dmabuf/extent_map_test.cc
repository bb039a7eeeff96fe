// SPDX-License-Identifier: Apache-2.0

// FIEMAP's answers, flag by flag, and the parts of a file that may be read by them.
#include "path/dmabuf/extent_map.h"

#include <gtest/gtest.h>

#include "fakes/extent_cause_name.h"
#include "topology/direct_file.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kBlock = 4096;

fiemap_extent extent_at(std::uint64_t block, std::uint64_t drive_block, std::uint64_t blocks, std::uint32_t flags = 0) {
  fiemap_extent extent{};
  extent.fe_logical = block * kBlock;
  extent.fe_physical = drive_block * kBlock;
  extent.fe_length = blocks * kBlock;
  extent.fe_flags = flags;
  return extent;
}

class ExtentMapTest : public testing::Test {
 protected:
  ExtentMapTest() { map_.clear(100 * kBlock, 512); }
  void add(std::uint64_t block, std::uint64_t drive_block, std::uint64_t blocks, std::uint32_t flags = 0) {
    EXPECT_EQ(map_.add(extent_at(block, drive_block, blocks, flags)), ExtentCause::none);
  }
  // "1000+2 1010+1": each piece as its block on the drive, and its blocks; else the cause.
  std::string lies(std::uint64_t block, std::uint64_t blocks, unsigned room = 8) {
    std::vector<DrivePiece> pieces(room);
    const ExtentMap::Found found = map_.find(block * kBlock, blocks * kBlock, pieces);
    std::string text = found.cause == ExtentCause::none ? "" : name_of(found.cause);
    for (unsigned i = 0; i < found.count; ++i) {
      text += (i == 0 ? "" : " ") + std::to_string(pieces[i].drive_offset / kBlock) + "+" +
              std::to_string(pieces[i].bytes / kBlock);
    }
    return text;
  }
  ExtentMap map_;
};

TEST(JudgeExtentTest, OnlyPlainExtentsAreRead) {
  const std::pair<std::uint32_t, ExtentCause> rows[] = {
      {0, ExtentCause::none},
      {FIEMAP_EXTENT_LAST, ExtentCause::none},
      {FIEMAP_EXTENT_MERGED, ExtentCause::none},
      {FIEMAP_EXTENT_SHARED, ExtentCause::none},
      {FIEMAP_EXTENT_SHARED | FIEMAP_EXTENT_LAST | FIEMAP_EXTENT_MERGED, ExtentCause::none},
      {FIEMAP_EXTENT_UNWRITTEN, ExtentCause::unwritten},
      {FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_LAST, ExtentCause::unwritten},
      {FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_UNKNOWN, ExtentCause::delayed},
      {FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_NOT_ALIGNED | FIEMAP_EXTENT_LAST, ExtentCause::packed},
      {FIEMAP_EXTENT_DATA_TAIL | FIEMAP_EXTENT_NOT_ALIGNED, ExtentCause::packed},
      {FIEMAP_EXTENT_ENCODED, ExtentCause::encoded},
      {FIEMAP_EXTENT_DATA_ENCRYPTED | FIEMAP_EXTENT_ENCODED, ExtentCause::encoded},
      {FIEMAP_EXTENT_UNKNOWN, ExtentCause::unplaced},
      {FIEMAP_EXTENT_NOT_ALIGNED, ExtentCause::misaligned},
      {0x10, ExtentCause::unknown_flag},
      {0x80000000u | FIEMAP_EXTENT_LAST, ExtentCause::unknown_flag},
  };
  for (const auto& [flags, cause] : rows) EXPECT_STREQ(name_of(judge_extent(flags)), name_of(cause)) << flags;
}

TEST_F(ExtentMapTest, ARangeIsCutAtTheEdgesOfExtents) {
  add(0, 1000, 10);
  add(10, 2000, 10, FIEMAP_EXTENT_SHARED);
  add(20, 500, 80, FIEMAP_EXTENT_LAST);

  EXPECT_EQ(lies(0, 10), "1000+10");
  EXPECT_EQ(lies(3, 2), "1003+2");
  EXPECT_EQ(lies(9, 2), "1009+1 2000+1");
  EXPECT_EQ(lies(5, 95), "1005+5 2000+10 500+80");
  EXPECT_EQ(lies(99, 1), "579+1");
}

TEST_F(ExtentMapTest, NeighboursOnTheDriveAreOnePiece) {
  add(0, 1000, 10);
  add(10, 1010, 10, FIEMAP_EXTENT_SHARED);
  add(20, 1031, 10);

  EXPECT_EQ(lies(0, 30), "1000+20 1031+10");
}

TEST_F(ExtentMapTest, ARangeWithAnyByteThatMayNotBeReadHasACause) {
  add(0, 1000, 10);
  add(10, 1010, 10, FIEMAP_EXTENT_UNWRITTEN);
  add(20, 1020, 10);
  add(40, 1040, 10, FIEMAP_EXTENT_LAST);

  EXPECT_EQ(lies(0, 10), "1000+10");
  EXPECT_EQ(lies(9, 2), "unwritten");
  EXPECT_EQ(lies(15, 10), "unwritten");
  EXPECT_EQ(lies(20, 10), "1020+10");
  EXPECT_EQ(lies(29, 2), "hole");
  EXPECT_EQ(lies(30, 5), "hole");
  EXPECT_EQ(lies(30, 20), "hole");
  EXPECT_EQ(lies(49, 2), "hole");
}

TEST_F(ExtentMapTest, ARangeIsOfWholeSectorsAndEndsWithTheFilesLast) {
  map_.clear(10 * kBlock + 512, 512);
  add(0, 1000, 11, FIEMAP_EXTENT_LAST);
  DrivePiece piece;
  const auto cause = [&](std::uint64_t offset, std::uint64_t size) {
    return std::string(name_of(map_.find(offset, size, {&piece, 1}).cause));
  };

  EXPECT_EQ(cause(10 * kBlock, 512), "none");
  map_.clear(10 * kBlock + 1, 512);
  add(0, 1000, 11, FIEMAP_EXTENT_LAST);
  EXPECT_EQ(cause(10 * kBlock, 512), "none");
  EXPECT_EQ(cause(512, 1024), "none");
  EXPECT_EQ(cause(10 * kBlock, 1024), "beyond_end");
  EXPECT_EQ(cause(11 * kBlock, 512), "beyond_end");
  EXPECT_EQ(cause(UINT64_MAX - 511, 512), "beyond_end");
  EXPECT_EQ(cause(0, UINT64_MAX - 511), "beyond_end");
  EXPECT_EQ(cause(0, 0), "misaligned");
  EXPECT_EQ(cause(0, 100), "misaligned");
  EXPECT_EQ(cause(1, 512), "misaligned");
}

TEST_F(ExtentMapTest, BlocksOfLessThanASectorAreNotReadThere) {
  map_.clear(100 * kBlock, 2 * kBlock);
  add(0, 1000, 10);
  add(10, 1011, 10);

  EXPECT_EQ(lies(0, 10), "1000+10");
  EXPECT_EQ(lies(10, 2), "misaligned");
}

TEST_F(ExtentMapTest, MorePiecesThanThereIsRoomForAreACause) {
  add(0, 1000, 1);
  add(1, 2000, 1);
  add(2, 3000, 1);

  EXPECT_EQ(lies(0, 3, 3), "1000+1 2000+1 3000+1");
  EXPECT_EQ(lies(0, 3, 2), "too_scattered");
}

TEST_F(ExtentMapTest, AnswersThatMakeNoSenseAreNotTaken) {
  add(10, 1000, 10);
  const fiemap_extent wrong[] = {extent_at(19, 2000, 1), extent_at(5, 2000, 2), extent_at(30, 2000, 0)};
  for (const fiemap_extent& extent : wrong) EXPECT_EQ(map_.add(extent), ExtentCause::extents_unknown);
  fiemap_extent endless = extent_at(30, 2000, 1);
  endless.fe_length = UINT64_MAX;
  EXPECT_EQ(map_.add(endless), ExtentCause::extents_unknown);
  fiemap_extent far = extent_at(30, 2000, 1);
  far.fe_physical = UINT64_MAX;
  EXPECT_EQ(map_.add(far), ExtentCause::extents_unknown);
}

TEST_F(ExtentMapTest, AFileInTooManyPiecesIsNotTaken) {
  for (std::uint64_t i = 0; i < kExtentsMax; ++i) add(i, 1000 + 2 * i, 1);

  EXPECT_EQ(map_.add(extent_at(kExtentsMax, 1, 1)), ExtentCause::too_many_extents);
}

class ExtentComparisonTest : public ExtentMapTest {
 protected:
  ExtentComparisonTest() {
    add(0, 1000, 10);
    add(10, 2000, 10);
    add(30, 3000, 10, FIEMAP_EXTENT_UNWRITTEN);
  }
  bool is_equal(std::uint64_t block, std::uint64_t blocks, const std::vector<fiemap_extent>& extents) {
    ExtentComparison comparison(map_, block * kBlock, blocks * kBlock);
    for (const fiemap_extent& extent : extents) comparison.add(extent);
    return comparison.is_equal();
  }
};

TEST_F(ExtentComparisonTest, AnAnswerMayBeCutDifferently) {
  EXPECT_TRUE(is_equal(5, 10, {extent_at(0, 1000, 10), extent_at(10, 2000, 10)}));
  EXPECT_TRUE(is_equal(5, 10, {extent_at(5, 1005, 5), extent_at(10, 2000, 5)}));
  EXPECT_TRUE(
      is_equal(5, 10, {extent_at(5, 1005, 2), extent_at(7, 1007, 3, FIEMAP_EXTENT_SHARED), extent_at(10, 2000, 90)}));
}

TEST_F(ExtentComparisonTest, WhatLiesElsewhereIsSeen) {
  EXPECT_FALSE(is_equal(5, 10, {extent_at(0, 1001, 10), extent_at(10, 2000, 10)}));
  EXPECT_FALSE(is_equal(5, 10, {extent_at(0, 1000, 10), extent_at(10, 2001, 10)}));
  EXPECT_FALSE(is_equal(5, 10, {extent_at(0, 1000, 20)}));
  EXPECT_FALSE(is_equal(5, 10, {extent_at(0, 1000, 10), extent_at(10, 2000, 10, FIEMAP_EXTENT_UNWRITTEN)}));
}

TEST_F(ExtentComparisonTest, WhatIsMissingIsSeen) {
  EXPECT_FALSE(is_equal(5, 10, {}));
  EXPECT_FALSE(is_equal(5, 10, {extent_at(0, 1000, 10)}));
  EXPECT_FALSE(is_equal(5, 10, {extent_at(6, 1006, 4), extent_at(10, 2000, 10)}));
  EXPECT_FALSE(is_equal(5, 10, {extent_at(0, 1000, 10), extent_at(11, 2001, 9)}));
}

TEST_F(ExtentComparisonTest, WhatTheMapDoesNotHaveIsDifferent) {
  EXPECT_FALSE(is_equal(20, 5, {extent_at(20, 2010, 5)}));
  EXPECT_FALSE(is_equal(30, 5, {extent_at(30, 3000, 5)}));
}

}  // namespace
}  // namespace penstock::core
