// SPDX-License-Identifier: Apache-2.0

#include "model/words.h"

#include <gtest/gtest.h>

namespace penstock::model {
namespace {

TEST(WordsTest, SizesThatAreWholeInBinaryUnitsAreSaidSoAndOthersInDecimalOnes) {
  EXPECT_EQ(size_in_words(1 << 20), "1 MiB");
  EXPECT_EQ(size_in_words(1 << 30), "1 GiB");
  EXPECT_EQ(size_in_words(4096), "4 KiB");
  EXPECT_EQ(size_in_words(17), "17 B");
  EXPECT_EQ(size_in_words(0.5), "0.5 B");
  EXPECT_EQ(size_in_words(0), "0 B");
  EXPECT_EQ(size_in_words(140e9), "140 GB");
  EXPECT_EQ(size_in_words(1e18), "1 EB");
}

TEST(WordsTest, TimesAreOfTheirOwnSize) {
  EXPECT_EQ(time_in_words(2.5e-8), "25 ns");
  EXPECT_EQ(time_in_words(2.345e-6), "2.35 us");
  EXPECT_EQ(time_in_words(0.344), "344.0 ms");
  EXPECT_EQ(time_in_words(1.39), "1.39 s");
  EXPECT_EQ(time_in_words(13680), "3 h 48 min");
  EXPECT_EQ(time_in_words(1e300), "for ever");
}

TEST(WordsTest, CountsHaveTheirDigits) {
  EXPECT_EQ(count_in_words(1e6), "1000000");
  EXPECT_EQ(count_in_words(123456.7), "123457");
  EXPECT_EQ(count_in_words(0.23124), "0.2312");
  EXPECT_EQ(count_in_words(5.014e-5), "0.00005014");
  EXPECT_EQ(count_in_words(0), "0");
  EXPECT_EQ(count_in_words(70e9), "70 billion");
  EXPECT_EQ(rate_in_words(12.5e9), "12.5 GB/s");
}

}  // namespace
}  // namespace penstock::model
