// SPDX-License-Identifier: Apache-2.0

#include "tools/suite/report.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

SuiteRow row_of(std::size_t workload, double without_s, double with_s) {
  SuiteRow row{&workloads()[workload], bytes_at(workloads()[workload], 0.01), {}, {}, std::nullopt};
  for (const auto& [way, seconds] : {std::pair{"without", without_s}, {"with Penstock", with_s}})
    row.ways.push_back({way, {seconds, 1.01 * seconds, 0.99 * seconds}});
  row.tally.bytes = row.bytes;
  row.tally.bytes_by_path[PENSTOCK_PATH_BOUNCE] = row.bytes;
  if (row.workload->is_load) row.cached = 0;
  return row;
}

SuiteFound found_of(std::vector<SuiteRow> rows) {
  return {"/mnt/nvme",
          "xfs",
          "device: GPU 0, NVIDIA H100 (0000:17:00.0)",
          {{"name", "NVIDIA H100"}},
          true,
          0.01,
          3,
          4.06,
          1000,
          std::move(rows)};
}

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

TEST(SuiteReport, OfTheWeekTellsThePublishedHoursAndDollars) {
  // 140 GB in 241.2 s and 33.8 s: the published 67 h, 9.4 h, $2,176 and $305.
  const SuiteFound found = found_of({row_of(1, 2.412, 0.338)});
  const Json json = suite_json(found);
  const Json& ways = json["workloads"][0]["ways"];
  EXPECT_NEAR(ways[0]["full_size_s"].get<double>(), 241.2, 0.3);
  EXPECT_NEAR(ways[0]["waiting_hours"].get<double>(), 67, 0.1);
  EXPECT_NEAR(ways[0]["waiting_money"].get<double>(), 2176, 3);
  EXPECT_NEAR(ways[1]["waiting_hours"].get<double>(), 9.4, 0.05);
  EXPECT_NEAR(ways[1]["waiting_money"].get<double>(), 305, 2);
  EXPECT_NEAR(ways[1]["gain"]["times"].get<double>(), 7.14, 0.05);
  EXPECT_EQ(json["workloads"][0]["marks"].size(), 0u);
}

TEST(SuiteReport, IsATableOfWhatWasMeasuredAndOneOfWhatItComesTo) {
  const std::string text = suite_text(found_of({row_of(1, 2.412, 0.338), row_of(3, 1.9, 1.0)})).string();
  EXPECT_TRUE(says(text, "suite: /mnt/nvme (xfs), scale 0.01, 3 turns\n")) << text;
  EXPECT_TRUE(says(text, "save-70b       1  1.30 GiB  2.41 (2.39-2.44)")) << text;
  EXPECT_TRUE(says(text, "by bounce 100 %; from the drive")) << text;
  EXPECT_TRUE(says(text, "1000 saves that 8 GPUs wait for, at $4.06 a GPU-hour")) << text;
  EXPECT_FALSE(says(text, "stands in")) << text;
}

TEST(SuiteReport, MarksWhatTellsLittle) {
  SuiteRow cached = row_of(3, 1.9, 1.0);
  cached.cached = 0.97;
  EXPECT_EQ(cached.marks("xfs"), std::vector<std::string>{"the page cache had 97 % of it"});
  SuiteRow unknown = row_of(3, 1.9, 1.0);
  unknown.cached.reset();
  EXPECT_EQ(unknown.marks("overlay").size(), 1u);
  EXPECT_EQ(row_of(1, 2, 1).marks("tmpfs"), std::vector<std::string>{"tmpfs: memory, no drive"});
  SuiteRow wild = row_of(1, 2, 1);
  wild.ways[0].turns_s = {1, 2, 3};
  EXPECT_TRUE(says(wild.marks("xfs")[0], "without: turns differ by 200 %"));
  EXPECT_TRUE(says(wild.marks("xfs").back(), "do not differ by more than chance"));
  EXPECT_TRUE(says(row_of(1, 0.02, 0.01).marks("xfs")[0], "too short to tell much"));
}

TEST(SuiteReport, OfOneTurnHasNoIntervals) {
  SuiteRow row = row_of(1, 2, 1);
  for (SuiteTimes& times : row.ways) times.turns_s.resize(1);
  SuiteFound found = found_of({row});
  found.turns = 1;
  const Json gain = suite_json(found)["workloads"][0]["ways"][1]["gain"];
  EXPECT_EQ(gain["times"], 2);
  EXPECT_TRUE(gain["low"].is_null());
}

}  // namespace
}  // namespace penstock::tools
