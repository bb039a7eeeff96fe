// SPDX-License-Identifier: Apache-2.0

#include "base/kept_text.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace penstock::core {
namespace {

// Each test keeps few texts, since all share the process's limit; only the last one uses it up.
TEST(KeptTextTest, ATextIsKeptOnceHoweverOftenItIsSaid) {
  std::string text = "use one=1";
  const char* const first = kept_text(text, "full");
  text[0] = 'X';

  EXPECT_STREQ(first, "use one=1");
  EXPECT_EQ(kept_text("use one=1", "full"), first);
}

TEST(KeptTextTest, WhatMovesACursorIsEscapedAndALongTextIsCutBetweenCharacters) {
  EXPECT_STREQ(kept_text("a\x1b[2J\nb", "full"), "a\\x1b[2J\\x0ab");
  std::string sharp;
  for (int i = 0; i < 400; ++i) sharp += "\u00e4";

  const std::string cut = kept_text("x" + sharp, "full");

  EXPECT_EQ(cut, "x" + sharp.substr(0, kKeptTextBytesMax - 2));
}

TEST(KeptTextTest, ThreadsThatKeepManyGetEachItsOwnTextOrTheOther) {
  std::vector<std::thread> threads;
  std::atomic<unsigned> others{0}, wrong{0};
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (unsigned i = 0; i < kKeptTextsMax; ++i) {
        const std::string text = "use " + std::to_string(thread) + "=" + std::to_string(i);
        const std::string got = kept_text(text, "full");
        if (got == "full") ++others;
        else if (got != text) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(wrong, 0u);
  EXPECT_GE(others, 3 * kKeptTextsMax);
  EXPECT_STREQ(kept_text("use one more=1", "full"), "full");
}

}  // namespace
}  // namespace penstock::core
