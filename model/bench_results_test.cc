// SPDX-License-Identifier: Apache-2.0

#include "model/bench_results.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "model/input.h"

namespace penstock::model {
namespace {

constexpr const char* kResult =
    R"({"settings": {"rw": "read", "block_size": 1048576, "threads": 2, "depth": 16},
        "result": {"bytes": 3000000000, "seconds": 2.0, "direct_bytes": 0, "cached_bytes": 3000000000},
        "bytes_by_path": {"p2pdma": 0, "bounce": 3000000000}})";

std::string refusal(const std::string& text) {
  try {
    bench_results(text, "file");
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

TEST(BenchResults, OneResultBecomesOneMeasurement) {
  const auto all = bench_results(kResult, "file");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].group, "read, bounce, page cache");
  EXPECT_EQ(all[0].block_bytes, 1048576);
  EXPECT_EQ(all[0].in_flight(), 32);
  EXPECT_EQ(all[0].bytes_per_s, 1.5e9);
}

TEST(BenchResults, ArraysAndResultsOneAfterTheOtherAreReadToo) {
  const std::string one = kResult;
  EXPECT_EQ(bench_results(one + "\n" + one + one, "file").size(), 3u);
  EXPECT_EQ(bench_results("[" + one + "," + one + "]\n" + one + "\n", "file").size(), 3u);
  EXPECT_EQ(bench_results("{\"results\": [" + one + "," + one + "]}", "file").size(), 2u);
}

TEST(BenchResults, WhatIsNoResultIsRefusedByName) {
  EXPECT_NE(refusal("").find("file holds no result"), std::string::npos);
  EXPECT_NE(refusal("[]").find("file holds no result"), std::string::npos);
  EXPECT_NE(refusal("{").find("no JSON"), std::string::npos);
  EXPECT_NE(refusal(std::string(kResult) + "\nhello").find("follows result 1"), std::string::npos);
  EXPECT_NE(refusal("{}").find("result 1 is no result"), std::string::npos);
  EXPECT_NE(refusal("[[1]]").find("result 1 is no result"), std::string::npos);
  EXPECT_NE(refusal(std::string(200000, '[')).find("no JSON"), std::string::npos);
}

TEST(BenchResults, NumbersThatCannotBeAreRefused) {
  for (const char* seconds : {"0", "-1", "null", "\"2\"", "1e400"}) {
    std::string text = kResult;
    text.replace(text.find("2.0"), 3, seconds);
    EXPECT_NE(refusal(text), "") << seconds;
  }
  std::string text = kResult;
  text.replace(text.find("1048576"), 7, "0");
  EXPECT_NE(refusal(text).find("settings.block_size is 0"), std::string::npos);
}

// Best of three runs of 0.4 s each on a busy machine of two cores, where runs differ by a quarter.
TEST(BenchResults, ResultsOfARealMachineAreReadAndPredicted) {
  std::ifstream file(PENSTOCK_SOURCE_DIR "/test/fixtures/bench/host.json");
  ASSERT_TRUE(file) << "the fixture is missing";
  std::stringstream text;
  text << file.rdbuf();
  const auto groups = compare(bench_results(text.str(), "host.json"), 4, Constants());
  EXPECT_EQ(groups.size(), 3u);
  EXPECT_LT(median_error(groups, true), 0.25);
  EXPECT_LT(median_error(groups, true), 1.5 * median_error(groups, false));
}

}  // namespace
}  // namespace penstock::model
