// SPDX-License-Identifier: Apache-2.0

// A store takes for its own what it wrote, and nothing of which a bit differs.
#include "kv/format.h"

#include <gtest/gtest.h>

#include <vector>

#include "kv/test_chunks.h"

namespace penstock::kv {
namespace {

const Chunk kChunk{.key = name_of(7),
                   .slot_offset = 32 << 10,
                   .slot_bytes = 32 << 10,
                   .bytes = 12345,
                   .generation = 9,
                   .crc = 0x1234567,
                   .cost = 0.25f};

// The bytes behind the header's own may differ.
TEST(FormatTest, AHeaderOfWhichABitDiffersIsNoHeader) {
  std::vector<std::byte> page(kHeaderBytes);
  encode_header(kChunk, name_of(1), page);
  ASSERT_EQ(generation_of(kChunk.slot_offset, name_of(1), page), kChunk.generation);
  std::size_t used = page.size();
  while (page[used - 1] == std::byte{}) --used;

  for (std::size_t bit = 0; bit < 8 * used; ++bit) {
    page[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_EQ(generation_of(kChunk.slot_offset, name_of(1), page), std::nullopt) << bit;
    EXPECT_FALSE(is_header_of(kChunk, name_of(1), page)) << bit;
    page[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

TEST(FormatTest, AHeaderIsOfItsStoreAndItsSlotAlone) {
  std::vector<std::byte> page(kHeaderBytes);
  encode_header(kChunk, name_of(1), page);
  EXPECT_EQ(generation_of(kChunk.slot_offset, name_of(2), page), std::nullopt);
  EXPECT_EQ(generation_of(2 * kChunk.slot_offset, name_of(1), page), std::nullopt);
  EXPECT_FALSE(is_header_of(kChunk, name_of(2), page));
}

TEST(FormatTest, APageThatWasCutIsNoHeader) {
  std::vector<std::byte> page(kHeaderBytes);
  encode_header(kChunk, name_of(1), page);
  page.resize(16);
  EXPECT_EQ(generation_of(kChunk.slot_offset, name_of(1), page), std::nullopt);
  EXPECT_FALSE(is_header_of(kChunk, name_of(1), page));
}

TEST(FormatTest, ARecordOfWhichABitDiffersIsNoRecord) {
  RecordBytes bytes = encode_record({RecordKind::put, kChunk});
  ASSERT_TRUE(decode_record(bytes));
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(decode_record(bytes)) << bit;
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

// A later version may write such ones, and their sum is right.
TEST(FormatTest, ARecordOfAnUnknownKindIsNoRecord) {
  for (const int kind : {0, static_cast<int>(RecordKind::closed) + 1})
    EXPECT_FALSE(decode_record(encode_record({static_cast<RecordKind>(kind), kChunk}))) << kind;
}

}  // namespace
}  // namespace penstock::kv
