// SPDX-License-Identifier: Apache-2.0

#include "core/paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace penstock::core {
namespace {

TEST(PathsTest, EveryNumberBelowTheirCountIsOnePaths) {
  for (unsigned number = 0; number < kPathCount; ++number) {
    EXPECT_EQ(static_cast<unsigned>(row_of(static_cast<PathId>(number)).id), number);
  }
}

TEST(PathsTest, APathIsFoundByItsNameAndNoOther) {
  std::set<std::string> names;
  for (const PathRow& row : kPaths) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(path_named(row.name), row.id);
  }
  EXPECT_FALSE(path_named("p2pdm"));
  EXPECT_FALSE(path_named(""));
}

TEST(PathsTest, DirectPathsStandBeforeThoseThatAreAlwaysThere) {
  const auto place = [](auto is_meant) {
    return std::find_if(std::begin(kPaths), std::end(kPaths), [&](const PathRow& row) { return is_meant(row.traits); });
  };
  EXPECT_LT(place([](const PathTraits& traits) { return traits.direct; }),
            place([](const PathTraits& traits) { return traits.posix; }));
}

}  // namespace
}  // namespace penstock::core
