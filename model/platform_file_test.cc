// SPDX-License-Identifier: Apache-2.0

#include "model/platform_file.h"

#include <gtest/gtest.h>

#include "model/input.h"

namespace penstock::model {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_platforms(text, "mine.yaml");
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kOne = "platforms:\n  - {name: a, gpu: H100, gpus: 8, gds: ready, source: me";

TEST(PlatformFile, TheBuiltInOneHasThePublishedPlatformsWithTheirSources) {
  const std::vector<Platform> all = parse_platforms(std::string(platforms_text()), "built in");
  ASSERT_GE(all.size(), 5u);
  EXPECT_EQ(all[0].on_demand, 4.06);
  EXPECT_EQ(all[0].spot, 1.43);
  for (const Platform& one : all) EXPECT_GT(one.source.size(), 10u) << one.name;
  EXPECT_FALSE(all.back().may_go_direct());
  EXPECT_FALSE(all.back().on_demand.has_value());
}

TEST(PlatformFile, WhatIsLeftOutIsNotKnown) {
  const Platform one = parse_platforms(std::string(kOne) + "}\n", "mine.yaml").front();
  EXPECT_FALSE(one.spot.has_value());
  EXPECT_FALSE(one.drives.has_value());
  EXPECT_TRUE(one.may_go_direct());
}

TEST(PlatformFile, FileSystemsAreReadWithTheirSources) {
  const std::vector<FileSystem> all = parse_file_systems(std::string(platforms_text()), "built in");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].bytes_per_s, 0.15e9);
  for (const FileSystem& one : all) EXPECT_GT(one.source.size(), 10u) << one.name;
  EXPECT_TRUE(parse_file_systems(std::string(kOne) + "}\n", "mine.yaml").empty());
  for (const char* text : {"file_systems: 3", "file_systems: [3]", "file_systems: []",
                           "file_systems: [{name: a, tb: 0, gb_per_s: 1, month_money: 1, source: s}]",
                           "file_systems: [{name: a, tb: 1, gb_per_s: .inf, month_money: 1, source: s}]",
                           "file_systems: [{name: a, tb: 1, gb_per_s: 1, source: s}]"}) {
    EXPECT_THROW(parse_file_systems(text, "mine.yaml"), InvalidInput) << text;
  }
}

TEST(PlatformFile, MistakesAreNamedWithFileAndLine) {
  EXPECT_EQ(refusal(std::string(kOne) + ", spot: -1}\n"), "mine.yaml:2: 'spot' must be a number from 0 to 1e+06");
  EXPECT_EQ(refusal(std::string(kOne) + ", spot: .nan}\n"), "mine.yaml:2: 'spot' must be a number from 0 to 1e+06");
  EXPECT_EQ(refusal(std::string(kOne) + ", drives: 1.5}\n"), "mine.yaml:2: 'drives' must be a whole number");
  EXPECT_NE(refusal(std::string(kOne) + ", moon: 1}\n").find("mine.yaml:2: unknown key"), std::string::npos);
  EXPECT_NE(refusal(std::string(kOne) + "}\n  - {name: a, gpu: x, gpus: 1, gds: none, source: me}\n").find("twice"),
            std::string::npos);
  for (const char* text : {"", "platforms", "platforms: 3", "platforms: []", "[", "platforms: [3]",
                           "platforms: [{name: a}]", "platforms: [{name: [], gpu: x, gpus: 1, gds: none, source: s}]",
                           "platforms: [{name: a, gpu: x, gpus: 0, gds: none, source: s}]",
                           "platforms: [{name: a, gpu: x, gpus: 1, gds: maybe, source: s}]"}) {
    EXPECT_NE(refusal(text), "") << text;
  }
}

}  // namespace
}  // namespace penstock::model
