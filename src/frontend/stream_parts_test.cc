// SPDX-License-Identifier: Apache-2.0

#include "frontend/stream_parts.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "device/stream_memory.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kMebibyte = 1u << 20;
constexpr std::uint64_t kGibibyte = 1u << 30;

// The parts of a request of this size have all its bytes, each byte once, and take turns with the slots.
void expect_tiles(const StreamParts& parts, std::uint64_t size) {
  std::vector<std::uint64_t> turns(parts.slots());
  std::uint64_t end = 0;
  for (std::uint64_t part = 0; part < parts.count(); ++part) {
    const std::uint64_t bytes = parts.size_of(part, size);
    ASSERT_LE(bytes, parts.bytes_max());
    ASSERT_TRUE(bytes == 0 || parts.begin_of(part) == end);
    ASSERT_EQ(parts.turn_of(part), turns[parts.slot_of(part)]++);
    end += bytes;
  }
  ASSERT_EQ(end, size);
  for (unsigned slot = 0; slot < parts.slots(); ++slot) ASSERT_EQ(parts.turns_of(slot), turns[slot]);
}

TEST(StreamPartsTest, ARequestThatIsNotStagedIsOnePart) {
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, 5 * kGibibyte}) {
    const StreamParts parts = StreamParts::whole(size);
    EXPECT_EQ(parts.count(), 1u);
    EXPECT_EQ(parts.slots(), 1u);
    expect_tiles(parts, size);
  }
}

TEST(StreamPartsTest, AShortRequestIsOnePartAndTakesOnlyItsOwnBytes) {
  for (const Op op : {Op::read, Op::write}) {
    for (const std::uint64_t size : {0u, 1u, 5000u, 128u << 10}) {
      const StreamParts parts = StreamParts::staged(op, size);
      EXPECT_EQ(parts.count(), 1u) << size;
      EXPECT_EQ(parts.staging_bytes(), size);
    }
  }
}

TEST(StreamPartsTest, SeveralThreadsCanFillTheSlotsOfAReadButNotOfAWrite) {
  EXPECT_EQ(StreamParts::staged(Op::read, kMebibyte).slots(), StreamBlock::kSlots);
  EXPECT_EQ(StreamParts::staged(Op::write, kMebibyte).slots(), 1u);
}

TEST(StreamPartsTest, PartsHaveEachByteOnceAlsoIfTheRequestGotShorter) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t size_max = random() % (std::uint64_t{1} << (random() % 34)) + 1;
    StreamParts parts = StreamParts::staged(i % 2 == 0 ? Op::read : Op::write, size_max);
    for (auto tries = random() % 4; tries > 0 && parts.shrink(); --tries) {
    }
    expect_tiles(parts, size_max);
    expect_tiles(parts, random() % size_max);
  }
}

TEST(StreamPartsTest, TheOperationsOnAStreamHaveABound) {
  for (std::uint64_t size = 1; size <= 2 * kGibibyte; size *= 2) {
    for (const Op op : {Op::read, Op::write}) EXPECT_LE(StreamParts::staged(op, size).count(), 64u) << size;
  }
}

TEST(StreamPartsTest, WhereMemoryIsShortPartsGetShorterUntilTwoOfTheLeastAreLeft) {
  for (const std::uint64_t size : {kMebibyte, 100 * kMebibyte, 3 * kGibibyte}) {
    StreamParts parts = StreamParts::staged(Op::read, size);
    for (std::uint64_t before = parts.staging_bytes(); parts.shrink(); before = parts.staging_bytes()) {
      EXPECT_LE(parts.staging_bytes(), before);
    }
    EXPECT_EQ(parts.slots(), 2u);
    EXPECT_EQ(parts.bytes_max(), StreamParts::kBytesMin);
    EXPECT_FALSE(parts.shrink());
    EXPECT_EQ(parts.staging_bytes(), 2 * StreamParts::kBytesMin) << "nothing changed";
  }
}

TEST(StreamPartsTest, AShortRequestCannotDoWithLess) {
  StreamParts parts = StreamParts::staged(Op::read, StreamParts::kBytesMin);
  EXPECT_FALSE(parts.shrink());
  EXPECT_EQ(parts.staging_bytes(), StreamParts::kBytesMin);
}

}  // namespace
}  // namespace penstock::core
