// SPDX-License-Identifier: Apache-2.0

#include "checksum/crc32c.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string_view>
#include <vector>

namespace penstock::core {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::vector<std::byte> random_bytes(std::size_t size) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// One bit after the other, as the polynomial is defined.
std::uint32_t by_definition(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

TEST(Crc32c, IsWhatTheStandardSays) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c({}), 0u);
  // RFC 3720, appendix B.4.
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0})), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43u);
}

TEST(Crc32c, EverySizeAndPlaceInMemoryGivesTheSameAsTheDefinition) {
  const std::vector<std::byte> bytes = random_bytes(40'000);
  for (const std::size_t size : {0, 1, 7, 8, 9, 63, 4095, 4096, 12287, 12288, 12289, 24576, 30001}) {
    for (std::size_t at = 0; at < 9; ++at) {
      const std::span<const std::byte> piece(bytes.data() + at, size);
      const std::uint32_t expected = by_definition(piece);
      EXPECT_EQ(crc32c(piece), expected) << size << " at " << at;
      EXPECT_EQ(crc32c_by_tables(piece), expected) << size << " at " << at;
    }
  }
}

TEST(Crc32c, GoesOnBehindWhatWasBefore) {
  const std::vector<std::byte> bytes = random_bytes(50'000);
  const std::span<const std::byte> all(bytes);
  for (const std::size_t cut : {0, 1, 100, 12'288, 49'999, 50'000}) {
    const std::uint32_t before = crc32c(all.first(cut));
    EXPECT_EQ(crc32c(all.subspan(cut), before), crc32c(all));
    EXPECT_EQ(crc32c_by_tables(all.subspan(cut), before), crc32c(all));
  }
}

TEST(Crc32c, PiecesAreCombined) {
  const std::vector<std::byte> bytes = random_bytes(70'000);
  const std::span<const std::byte> all(bytes);
  for (const std::size_t cut : {0, 1, 4096, 65'535, 70'000}) {
    EXPECT_EQ(crc32c_combine(crc32c(all.first(cut)), crc32c(all.subspan(cut)), all.size() - cut), crc32c(all));
  }
}

TEST(Crc32c, EverySingleBitCounts) {
  std::vector<std::byte> bytes = random_bytes(13'000);
  const std::uint32_t whole = crc32c(bytes);
  for (std::size_t at = 0; at < bytes.size(); at += 97) {
    bytes[at] ^= std::byte{0x10};
    EXPECT_NE(crc32c(bytes), whole);
    bytes[at] ^= std::byte{0x10};
  }
}

TEST(Crc32c, ManyPiecesAreCombined) {
  const std::vector<std::byte> bytes = random_bytes(50'000);
  std::span<const std::byte> rest(bytes);
  Crc32cCombiner combine;
  std::uint32_t sum = 0;
  for (const std::size_t size : {0, 100, 4096, 4096, 4096, 1, 1, 0, 37'610}) {
    sum = combine(sum, crc32c(rest.first(size)), size);
    rest = rest.subspan(size);
  }

  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(sum, crc32c(bytes));
}

TEST(Crc32c, OfZerosIsKnownWithoutLookingAtAny) {
  const std::vector<std::byte> zeros(65'536);
  for (const std::size_t size : {0, 1, 32, 4096, 65'535, 65'536}) {
    EXPECT_EQ(crc32c_of_zeros(size), crc32c(std::span(zeros).first(size))) << size;
  }
}

}  // namespace
}  // namespace penstock::core
