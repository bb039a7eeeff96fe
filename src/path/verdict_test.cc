#include "path/verdict.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace penstock::core {
namespace {

TEST(VerdictTest, EveryReasonHasANameOfItsOwnAndASentence) {
  std::set<std::string> names;
  for (unsigned i = 0; i < kReasonCount; ++i) {
    const auto reason = static_cast<Reason>(i);
    EXPECT_TRUE(names.insert(reason_name(reason)).second) << reason_name(reason);
    EXPECT_GT(std::string(reason_sentence(reason)).size(), 10u);
  }
}

TEST(VerdictTest, PathsAreNamedBestFirst) {
  EXPECT_STREQ(path_name(PathId::p2pdma), "p2pdma");
  EXPECT_STREQ(path_name(PathId::bounce), "bounce");
  EXPECT_STREQ(path_name(PathId::null), "null");
}

}  // namespace
}  // namespace penstock::core
