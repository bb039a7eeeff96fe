// SPDX-License-Identifier: Apache-2.0

#include "tools/common/terminal.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

TEST(Terminal, ArgumentsAreEscapedAndTheFormatIsNot) {
  testing::internal::CaptureStdout();
  print("\033[2K{}: {:>4} {:.1f}\n", std::string("a\x1b[2J\nb"), 7u, 0.5);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "\033[2Ka\\x1b[2J\\x0ab:    7 0.5\n");
}

TEST(Terminal, ErrorsAreEscapedToo) {
  testing::internal::CaptureStderr();
  const char* const name = "\u009b2J";
  print_error("{}\n", name);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "\\xc2\\x9b2J\n");
}

TEST(Terminal, LinesOfATextStayLinesAndNothingElseDoes) {
  testing::internal::CaptureStdout();
  print("{}|\n", Text("a\tb\n\x1b[2J\r\n"));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a\tb\n\\x1b[2J\\x0d\n|\n");
}

TEST(Terminal, AnArgumentOfATextBeginsNoLine) {
  Text text = Text::of("file: {}\n", "a\nsize: 7");
  text += Text::of("{}\n", text);
  EXPECT_EQ(text.string(), "file: a\\x0asize: 7\nfile: a\\x0asize: 7\n\n");
}

TEST(Terminal, WhatIsEscapedAlreadyIsNotEscapedTwice) { EXPECT_EQ(Text(Text("\x1b").string()).string(), "\\x1b"); }

}  // namespace
}  // namespace penstock::tools
