// SPDX-License-Identifier: Apache-2.0

#include "tools/common/content.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace penstock::tools {
namespace {

std::vector<std::byte> bytes_of(const Content& content, std::uint64_t offset, std::size_t size) {
  std::vector<std::byte> bytes(size);
  content.fill(bytes, offset);
  return bytes;
}

TEST(Content, DoesNotDependOnHowItIsCut) {
  const RandomContent content(1);
  const std::vector<std::byte> whole = bytes_of(content, 0, 20'000);
  for (const std::size_t offset : {0, 1, 7, 8, 4095, 4096, 10'001}) {
    for (const std::size_t size : {0, 1, 9, 4096, 5000}) {
      const std::vector<std::byte> part = bytes_of(content, offset, size);
      EXPECT_TRUE(size == 0 || std::memcmp(part.data(), whole.data() + offset, size) == 0) << offset << "+" << size;
    }
  }
}

TEST(Content, OneChangedByteIsFoundWhereItIs) {
  const RandomContent content(2);
  std::vector<std::byte> bytes = bytes_of(content, 12'345, 9000);
  EXPECT_EQ(content.first_difference(bytes, 12'345), std::nullopt);
  bytes[4096] ^= std::byte{1};
  bytes[8999] ^= std::byte{1};
  EXPECT_EQ(content.first_difference(bytes, 12'345), 4096u);
}

TEST(Content, AnotherSeedIsAnotherContent) {
  const std::vector<std::byte> bytes = bytes_of(RandomContent(1), 0, 64);
  EXPECT_NE(RandomContent(2).first_difference(bytes, 0), std::nullopt);
  EXPECT_NE(RandomContent(1).first_difference(bytes, 64), std::nullopt);
}

TEST(WeightsContent, IsNormalBfloat16OfASmallDeviation) {
  const std::vector<std::byte> bytes = bytes_of(WeightsContent(3), 1 << 20, 1 << 20);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data() + i, 2);
    const float value = std::bit_cast<float>(std::uint32_t{half} << 16);
    ASSERT_LT(std::fabs(value), 0.1f);
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const double count = static_cast<double>(bytes.size()) / 2;
  EXPECT_NEAR(sum / count, 0.0, 0.0005);
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.001);
}

}  // namespace
}  // namespace penstock::tools
