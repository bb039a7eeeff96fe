// SPDX-License-Identifier: Apache-2.0

#include "base/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::core {
namespace {

TEST(Printable, TextOfAnyLanguageStaysReadable) {
  for (const char* text : {"", "model-00001 of 2.safetensors", "Gewässer", "模型", "модель", "🜄", "a\\b", "\u00a0"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, ControlCharactersAreShownByTheirBytes) {
  EXPECT_EQ(printable("a\x1b]0;title\a"), "a\\x1b]0;title\\x07");
  EXPECT_EQ(printable("one\ntwo\r\t\x7f"), "one\\x0atwo\\x0d\\x09\\x7f");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
}

TEST(Printable, C1ControlsAreShownWhetherTheyAreUtf8OrLoneBytes) {
  EXPECT_EQ(printable("\u009b2J"), "\\xc2\\x9b2J");
  EXPECT_EQ(printable("\x9b"
                      "2J"),
            "\\x9b2J");
  EXPECT_EQ(printable("\u0080\u009f\u00a1"), "\\xc2\\x80\\xc2\\x9f\u00a1");
}

TEST(Printable, BytesThatAreNoUtf8AreShown) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("cut \xe6\xa8"), "cut \\xe6\\xa8");
  EXPECT_EQ(printable("long \xc0\x9b \xe0\x82\x9b \xf0\x80\x82\x9b"),
            "long \\xc0\\x9b \\xe0\\x82\\x9b \\xf0\\x80\\x82\\x9b");
  EXPECT_EQ(printable("half \xed\xa0\x80"), "half \\xed\\xa0\\x80");
  EXPECT_EQ(printable("beyond \xf4\x90\x80\x80"), "beyond \\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xe6模"), "\\xe6模");
}

TEST(Printable, WhatTurnsTextAroundIsShown) {
  EXPECT_EQ(printable("\u202etxt.exe"), "\\xe2\\x80\\xaetxt.exe");
  for (const char* turn : {"\u2028", "\u2029", "\u202a", "\u202d", "\u2066", "\u2069"}) {
    EXPECT_TRUE(printable(turn).starts_with("\\xe2\\x8")) << printable(turn);
  }
  EXPECT_EQ(printable("\u2027\u202f\u2065\u206a"), "\u2027\u202f\u2065\u206a");
}

TEST(Printable, WhatIsToBeKeptStays) { EXPECT_EQ(printable("a\nb\tc\x1b", "\n\t"), "a\nb\tc\\x1b"); }

TEST(Printable, Utf8IsToldFromOtherBytes) {
  for (const char* text : {"", "a\x1b\n\x7f", "Gewässer", "模型", "🜄", "\u0080\u202e", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(text)) << printable(text);
  }
  for (const char* text : {"\xff", "cut \xe6\xa8", "\xc0\x9b", "half \xed\xa0\x80", "\xf4\x90\x80\x80", "\x9b"}) {
    EXPECT_FALSE(is_utf8(text)) << printable(text);
  }
}

}  // namespace
}  // namespace penstock::core
