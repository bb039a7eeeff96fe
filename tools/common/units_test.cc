// SPDX-License-Identifier: Apache-2.0

#include "tools/common/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace penstock::tools {
namespace {

TEST(Units, SizesAreBinaryWhateverTheirSuffixLooksLike) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("4096"), 4096u);
  EXPECT_EQ(parse_size("512B"), 512u);
  EXPECT_EQ(parse_size("4k"), 4096u);
  EXPECT_EQ(parse_size("4K"), 4096u);
  EXPECT_EQ(parse_size("4KiB"), 4096u);
  EXPECT_EQ(parse_size("3Mi"), 3u << 20);
  EXPECT_EQ(parse_size("2G"), 2ull << 30);
  EXPECT_EQ(parse_size("5TiB"), 5ull << 40);
}

TEST(Units, WhatIsNoSizeIsRefused) {
  for (const char* text : {"", "k", "-1", "+1", " 1", "1 ", "1.5G", "4KB", "4kb", "1MB", "0x10", "1kk", "1Q", "iB"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(Units, SizesPastTheLargestOffsetAreRefused) {
  EXPECT_EQ(parse_size("9223372036854775807"), static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  EXPECT_FALSE(parse_size("9223372036854775808"));
  EXPECT_FALSE(parse_size("18446744073709551616"));
  EXPECT_FALSE(parse_size("8192P"));
  EXPECT_EQ(parse_size("8191P"), 8191ull << 50);
}

TEST(Units, SizesReadBackInTheLargestUnitThatFits) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(4096), "4 KiB");
  EXPECT_EQ(format_size(1536), "1.50 KiB");
  EXPECT_EQ(format_size(1ull << 30), "1 GiB");
  EXPECT_EQ(format_size(std::numeric_limits<std::uint64_t>::max()), "16384.00 PiB");
}

TEST(Units, RatesAreDecimal) {
  EXPECT_EQ(format_rate(3.2141e9), "3.21 GB/s");
  EXPECT_EQ(format_rate(5e6), "5.00 MB/s");
  EXPECT_DOUBLE_EQ(gigabytes(2'000'000'000), 2.0);
  EXPECT_DOUBLE_EQ(gibibytes(3ull << 30), 3.0);
}

TEST(Units, DurationsNameTheirUnit) {
  EXPECT_EQ(format_duration(0.00085), "850 us");
  EXPECT_EQ(format_duration(0.0125), "12.5 ms");
  EXPECT_EQ(format_duration(1.25), "1.25 s");
  EXPECT_EQ(format_duration(125), "2 min 5 s");
  EXPECT_EQ(format_duration(7260), "2 h 1 min");
}

}  // namespace
}  // namespace penstock::tools
