// SPDX-License-Identifier: Apache-2.0

#include "path/verdict.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace penstock::core {
namespace {

TEST(VerdictTest, EveryReasonThatMeansSomethingHasANameOfItsOwnAndASentence) {
  std::set<std::string> names;
  for (unsigned i = 0; i < kReasonCount; ++i) {
    const auto reason = static_cast<Reason>(i);
    if (std::string(reason_name(reason)) == "unknown") {
      EXPECT_GT(reason, Reason::refused_late) << "a reason of the paths' own has no text";
      continue;
    }
    EXPECT_TRUE(names.insert(reason_name(reason)).second) << reason_name(reason);
    EXPECT_GT(std::string(reason_sentence(reason)).size(), 10u);
  }
}

TEST(VerdictTest, EveryObstacleIsAReason) {
  for (const ObstacleText& text : obstacle_texts()) {
    ASSERT_LT(static_cast<unsigned>(reason_of(text.obstacle)), kReasonCount);
    EXPECT_STREQ(reason_name(reason_of(text.obstacle)), text.code);
    EXPECT_STREQ(reason_remedy(reason_of(text.obstacle)), text.remedy);
  }
}

TEST(VerdictTest, TheDocumentationListsEveryObstacleInTheSameWords) {
  std::ostringstream page;
  page << std::ifstream(PENSTOCK_SOURCE_DIR "/docs/direct.md").rdbuf();
  for (const ObstacleText& text : obstacle_texts()) {
    const std::string row = std::string("| `") + text.code + "` | " + text.sentence + " | " + text.remedy + " |\n";
    EXPECT_NE(page.str().find(row), std::string::npos) << row;
  }
}

TEST(VerdictTest, NumbersBetweenReasonsAreUnknown) {
  EXPECT_STREQ(reason_name(Reason::obstacle), "unknown");
  EXPECT_STREQ(reason_name(static_cast<Reason>(159)), "unknown");
  EXPECT_STREQ(reason_name(static_cast<Reason>(255)), "unknown");
}

TEST(VerdictTest, PathsAreNamedBestFirst) {
  EXPECT_STREQ(path_name(PathId::p2pdma), "p2pdma");
  EXPECT_STREQ(path_name(PathId::bounce), "bounce");
  EXPECT_STREQ(path_name(PathId::null), "null");
}

}  // namespace
}  // namespace penstock::core
