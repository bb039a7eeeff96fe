// SPDX-License-Identifier: Apache-2.0

#include "tools/common/wrapping.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

TEST(WrappingTest, ALineGoesOnBelowWhatItsHeadTells) {
  EXPECT_EQ(wrapped_line("  -> one two three", 5, 12), "  -> one two\n     three\n");
  EXPECT_EQ(wrapped_line("  -> unbreakable two", 5, 10), "  -> unbreakable\n     two\n");
  EXPECT_EQ(wrapped_line("head  ", 6, 80), "head\n");
}

TEST(WrappingTest, ALineOfColumnsGoesOnBelowItsLastOne) {
  EXPECT_EQ(wrapped("  --all  every row\n", 15), "  --all  every\n         row\n");
  EXPECT_EQ(wrapped("a  b  one two\n", 10), "a  b  one\n      two\n");
}

TEST(WrappingTest, AColumnFarToTheRightHasALineOfItsOwn) {
  EXPECT_EQ(wrapped("first  second  why not\n", 19), "first  second\n    why not\n");
}

TEST(WrappingTest, ASentenceGoesOnTwoColumnsIn) {
  EXPECT_EQ(wrapped("cpu: one two three\n", 12), "cpu: one two\n  three\n");
  EXPECT_EQ(wrapped("one two three\n", 8), "one two\n  three\n");
}

TEST(WrappingTest, WhatFitsStaysAsItIs) {
  for (const char* text : {"", "\n", "short\n", "a\n\nb", "trailing \n"}) EXPECT_EQ(wrapped(text, 10), text);
}

TEST(WrappingTest, CodesOfColoursTakeNoRoom) {
  EXPECT_EQ(wrapped("\033[32mone\033[0m two\n", 7), "\033[32mone\033[0m two\n");
  EXPECT_EQ(wrapped("\033[32mone\033[0m  two three\n", 9), "\033[32mone\033[0m  two\n     three\n");
}

}  // namespace
}  // namespace penstock::tools
