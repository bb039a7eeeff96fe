// SPDX-License-Identifier: Apache-2.0

// Every small case: all offsets, sizes, alignments, chunk sizes and both operations, checked against the plan's
// contract instead of a second planner.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/align.h"

namespace penstock::core {
namespace {

std::string text_of(const Plan& plan, Op op) {
  std::string text;
  for (std::uint64_t i = 0; i < plan.chunk_count(); ++i) {
    char line[160];
    const std::size_t used = format_chunk(plan.chunk(i), op, line);
    text.append(line, used).push_back('\n');
  }
  return text;
}

void expect_tiles(const Plan& plan, const Request& request) {
  std::uint64_t position = request.file_offset;
  for (std::uint64_t i = 0; i < plan.chunk_count(); ++i) {
    const Chunk chunk = plan.chunk(i);
    ASSERT_EQ(chunk.file_offset, position);
    ASSERT_EQ(chunk.buffer_offset, position - request.file_offset);
    ASSERT_GT(chunk.size, 0u);
    position += chunk.size;
  }
  ASSERT_EQ(position, request.file_offset + request.size);
}

void expect_obeys(const Chunk& chunk, const Request& request, const Limits& limits) {
  ASSERT_LE(chunk.io_size, limits.chunk_max);
  ASSERT_LE(chunk.io_offset, chunk.file_offset);
  ASSERT_GE(chunk.io_offset + chunk.io_size, chunk.file_offset + chunk.size);
  const bool widened = chunk.io_offset != chunk.file_offset || chunk.io_size != chunk.size;
  if (widened) {
    ASSERT_EQ(request.op, Op::read);
    ASSERT_TRUE(limits.staged);
    ASSERT_EQ(chunk.io_mode, IoMode::o_direct);
    ASSERT_LT(chunk.io_size - chunk.size, 2 * limits.file_align);
  }
  ASSERT_EQ(chunk.flush, request.op == Op::write && limits.file_align > 1 && chunk.io_mode == IoMode::buffered);
  if (chunk.io_mode == IoMode::o_direct) {
    ASSERT_GT(limits.file_align, 1u);
    ASSERT_TRUE(is_aligned(chunk.io_offset, limits.file_align));
    ASSERT_TRUE(is_aligned(chunk.io_size, limits.file_align));
    if (!limits.staged) {
      ASSERT_TRUE(is_aligned(request.buffer_address + chunk.buffer_offset, limits.memory_align));
    }
  }
}

// The middle comes first, then head and tail; each chunk once, and in the file's order.
void expect_order(const Plan& plan) {
  std::uint64_t turn = 0;
  for (const bool ends : {false, true}) {
    for (std::uint64_t i = 0; i < plan.chunk_count(); ++i) {
      const bool is_middle = i >= plan.head_count() && i < plan.head_count() + plan.middle_count();
      if (is_middle == ends) continue;
      ASSERT_EQ(turn >= plan.middle_count(), ends);
      ASSERT_EQ(plan.in_turn(turn++).file_offset, plan.chunk(i).file_offset);
    }
  }
  ASSERT_EQ(turn, plan.chunk_count());
}

// Counts whole pages in the write, and pages of which it covers whole blocks.
std::uint64_t direct_bytes_of_write(const Request& request, const Limits& limits) {
  const std::uint64_t page = std::max(limits.page, limits.file_align);
  const std::uint64_t end = request.file_offset + request.size;
  const auto in_place = [&](std::uint64_t at) {
    return limits.staged || is_aligned(request.buffer_address + at - request.file_offset, limits.memory_align);
  };
  const std::uint64_t first = std::min(align_up(request.file_offset, page), end);
  const std::uint64_t last = std::max(align_down(end, page), first);
  if (last > first && !in_place(first)) return 0;
  std::uint64_t bytes = last - first;
  for (const auto& [from, to] : {std::pair{request.file_offset, first}, std::pair{last, end}}) {
    if (is_aligned(from | to, limits.file_align) && in_place(from)) bytes += to - from;
  }
  return bytes;
}

// Bytes that go buffered although blocks could have gone direct would be a silent fallback.
void expect_direct_where_possible(const Plan& plan, const Request& request, const Limits& limits) {
  if (limits.file_align == 1) return;
  const std::uint64_t first = align_up(request.file_offset, limits.file_align);
  const std::uint64_t end = request.file_offset + request.size;
  const std::uint64_t whole = align_down(end, limits.file_align);
  const bool reachable =
      limits.staged || is_aligned(request.buffer_address + first - request.file_offset, limits.memory_align);
  std::uint64_t direct = 0;
  for (std::uint64_t i = 0; i < plan.chunk_count(); ++i) {
    if (plan.chunk(i).io_mode == IoMode::o_direct) direct += plan.chunk(i).size;
  }
  const std::uint64_t expected = request.op == Op::write      ? direct_bytes_of_write(request, limits)
                                 : limits.staged              ? request.size
                                 : reachable && whole > first ? whole - first
                                                              : 0;
  ASSERT_EQ(direct, expected);
}

TEST(PlanTest, EverySmallCaseTilesItsRequestAndObeysItsLimits) {
  std::uint64_t cases = 0;
  for (const Op op : {Op::read, Op::write}) {
    for (const bool staged : {true, false}) {
      for (const std::uint32_t align : {1u, 2u, 4u, 8u}) {
        for (const std::uint32_t memory_align : {1u, 2u, 4u}) {
          for (const std::uint64_t chunk_max : {8u, 16u, 24u}) {
            for (std::uint64_t offset = 0; offset < 26; ++offset) {
              for (std::uint64_t size = 0; size < 60; ++size) {
                for (std::uint64_t phase = 0; phase < 4; ++phase) {
                  const Request request{op, offset, 64 + phase, size};
                  const Limits limits{align, memory_align, chunk_max, staged, 8};
                  const Plan plan(request, limits);
                  expect_tiles(plan, request);
                  expect_order(plan);
                  for (std::uint64_t i = 0; i < plan.chunk_count(); ++i) expect_obeys(plan.chunk(i), request, limits);
                  expect_direct_where_possible(plan, request, limits);
                  if (testing::Test::HasFatalFailure()) {
                    FAIL() << text_of(plan, op) << "offset " << offset << " size " << size << " align " << align
                           << " memory " << memory_align << " chunk " << chunk_max << " staged " << staged << " phase "
                           << phase;
                  }
                  ++cases;
                }
              }
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(cases, 2u * 2 * 4 * 3 * 3 * 26 * 60 * 4);
}

TEST(PlanTest, NoRequestNoChunks) {
  const Plan plan({Op::read, 4096, 0, 0}, {512, 512, 1 << 20, true});
  EXPECT_EQ(plan.chunk_count(), 0u);
}

TEST(PlanTest, AStagedReadIsWidenedToBlocks) {
  const Plan plan({Op::read, 1000, 0, 5000}, {512, 512, 4096, true});
  EXPECT_EQ(text_of(plan, Op::read),
            "read  direct   file 1000+3608 buffer +0 io 512+4096\n"
            "read  direct   file 4608+1392 buffer +3608 io 4608+1536\n");
}

TEST(PlanTest, AnUnalignedWriteIsCutAtPagesIntoHeadMiddleAndTail) {
  const Plan plan({Op::write, 1000, 0, 13000}, {512, 512, 4096, true});
  EXPECT_EQ(text_of(plan, Op::write),
            "write buffered file 1000+3096 buffer +0 flush\n"
            "write direct   file 4096+4096 buffer +3096\n"
            "write direct   file 8192+4096 buffer +7192\n"
            "write buffered file 12288+1712 buffer +11288 flush\n");
}

TEST(PlanTest, AWriteOfWholeSectorsNeverGoesThroughThePageCache) {
  const Plan plan({Op::write, 512, 0, 9728}, {512, 512, 1 << 20, true});
  EXPECT_EQ(text_of(plan, Op::write),
            "write direct   file 512+3584 buffer +0\n"
            "write direct   file 4096+4096 buffer +3584\n"
            "write direct   file 8192+2048 buffer +7680\n");
  const Plan small({Op::write, 4096 - 512, 0, 1024}, {512, 512, 1 << 20, true});
  EXPECT_EQ(text_of(small, Op::write),
            "write direct   file 3584+512 buffer +0\n"
            "write direct   file 4096+512 buffer +512\n");
}

TEST(PlanTest, EdgesAreWhatSharesAPageWithOthers) {
  const Plan plan({Op::write, 512, 0, 9728}, {512, 512, 1 << 20, true});
  EXPECT_EQ(plan.head_count(), 1u);
  EXPECT_EQ(plan.middle_count(), 1u);
  EXPECT_EQ(plan.chunk_count(), 3u);
}

TEST(PlanTest, TheMiddleIsMovedFirstThenHeadAndTail) {
  const Plan plan({Op::write, 1000, 0, 13000}, {512, 512, 4096, true});
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t turn = 0; turn < plan.chunk_count(); ++turn) offsets.push_back(plan.in_turn(turn).file_offset);
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{4096, 8192, 1000, 12288}));
  EXPECT_EQ(plan.middle_count(), 2u);
}

TEST(PlanTest, BufferedChunksMeetOnPageBoundaries) {
  const Plan plan({Op::write, 5000, 0, 20000}, {1, 1, 8192, true});
  EXPECT_EQ(text_of(plan, Op::write),
            "write buffered file 5000+7288 buffer +0\n"
            "write buffered file 12288+8192 buffer +7288\n"
            "write buffered file 20480+4520 buffer +15480\n");
}

TEST(PlanTest, AMisalignedBufferInPlaceGoesThroughThePageCache) {
  const Plan plan({Op::read, 4096, 64 + 3, 8192}, {512, 512, 1 << 20, false});
  EXPECT_EQ(text_of(plan, Op::read), "read  buffered file 4096+8192 buffer +0\n");
}

TEST(PlanTest, HugeRequestsCostNothingToPlan) {
  const std::uint64_t size = std::uint64_t{1} << 50;
  const Plan plan({Op::read, 7, 0, size}, {4096, 4096, 1 << 20, true});
  const Chunk last = plan.chunk(plan.chunk_count() - 1);
  EXPECT_EQ(last.file_offset + last.size, size + 7);
}

TEST(PlanTest, TextIsCutToFit) {
  char text[8];
  const std::size_t used = format_chunk({}, Op::read, text);
  EXPECT_EQ(used, 7u);
  EXPECT_STREQ(text, "read  b");
}

TEST(PlanTest, TextWithoutRoomIsEmpty) { EXPECT_EQ(format_chunk({}, Op::read, {}), 0u); }

TEST(PlanTest, LimitsThatNoPathHasEndTheProcess) {
  const Request write{Op::write, 100, 0, 9000};
  EXPECT_DEATH(Plan(write, {512, 512, 0, true}), "chunk_max > 0");
  EXPECT_DEATH(Plan(write, {513, 512, 8192, true}), "is_power_of_two.limits.file_align");
  EXPECT_DEATH(Plan(write, {512, 512, 8192 + 100, true}), "is_aligned.limits.chunk_max");
  EXPECT_DEATH(Plan(write, {.file_align = 512, .chunk_max = 8192, .page = 4097}), "is_power_of_two.limits_.page");
}

TEST(PlanTest, AChunkBehindTheLastEndsTheProcess) {
  const Plan plan({Op::read, 0, 0, 8192}, {512, 512, 4096, true});
  EXPECT_DEATH(plan.chunk(plan.chunk_count()), "index < chunk_count_");
}

}  // namespace
}  // namespace penstock::core
