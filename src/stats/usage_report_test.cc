// SPDX-License-Identifier: Apache-2.0

#include "stats/usage_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::core {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMs = 1'000'000;

UsageReport::Moved way(PathId path, Reason reason, std::uint64_t bytes, std::uint64_t operations) {
  return {path, reason, Op::read, {bytes, operations}};
}

Usage::File file(const std::string& name, std::uint64_t bytes, std::uint64_t milliseconds) {
  FileSums sums;
  sums.by_op[0] = {bytes, 2, milliseconds * kMs};
  return {name, sums};
}

UsageReport load_of_two_shards() {
  UsageReport report;
  report.pid = 42;
  report.program = "python3";
  report.library = "/opt/penstock/lib/libcufile.so.0";
  report.nanoseconds = 4000 * kMs;
  report.busy_ns = 1000 * kMs;
  report.sessions = 1;
  report.ways = {way(PathId::pagecache, Reason::none, 1 << 20, 1), way(PathId::bounce, Reason::stand_in, 3 << 20, 3)};
  report.direct_bytes = 3 << 20;
  report.files = {file("/data/quick", 1 << 20, 100), file("/data/slow", 3 << 20, 900)};
  return report;
}

TEST(UsageReportTest, PeopleReadWhatWasMovedByWhichPathWhyAndOfWhichFiles) {
  EXPECT_EQ(report_text(load_of_two_shards()),
            "penstock: process 42 (python3), Penstock " PENSTOCK_VERSION
            ", /opt/penstock/lib/libcufile.so.0\n"
            "  moved     4.00 MiB read and 0 B written in 4 requests\n"
            "  storage   3.00 MiB O_DIRECT, 1.00 MiB page cache\n"
            "  time      requests were under way for 1.00 s of the 4.00 s (25 %) since the first session opened; one "
            "took 250.0 ms\n"
            "  read         3.00 MiB          3 requests  by bounce, not directly, since stand_in\n"
            "  read         1.00 MiB          1 requests  by pagecache, not directly\n"
            "  why       stand_in: the device is host memory standing in for a GPU\n"
            "            remedy: run 'penstock check' to see why no GPU can be used\n"
            "  slowest      3.00 MiB          2 requests   900.0 ms  /data/slow\n"
            "               1.00 MiB          2 requests   100.0 ms  /data/quick\n");
}

TEST(UsageReportTest, ASessionThatWasAskedForNothingIsSaidInALine) {
  UsageReport report = load_of_two_shards();
  report.files.clear();

  EXPECT_EQ(report_text(report),
            "penstock: process 42 (python3) opened a session of /opt/penstock/lib/libcufile.so.0 and asked it for no "
            "byte\n");
}

TEST(UsageReportTest, FilesBeyondTheLargestAreSummedUp) {
  UsageReport report = load_of_two_shards();
  for (unsigned i = 0; i < 100; ++i) report.files.push_back(file("/small/" + std::to_string(i), 10, 1));
  report.others.by_op[1] = {5, 1, 0};
  report.others_opened = 7;

  const json document = json::parse(report_json(report));

  EXPECT_EQ(document["files"].size(), kReportFilesMax);
  EXPECT_EQ(document["files"][0]["name"], "/data/slow");
  EXPECT_EQ(document["others"]["files"], 100 + 2 - kReportFilesMax + 7);
  EXPECT_EQ(document["others"]["read_bytes"], (100 + 2 - kReportFilesMax) * 10);
  EXPECT_EQ(document["others"]["written_bytes"], 5);
  EXPECT_EQ(document["all"]["requests"], 2 * 102 + 1);
  EXPECT_NE(report_text(report).find("others: 93 files\n"), std::string::npos) << report_text(report);
}

TEST(UsageReportTest, AHostileNameBeginsNoLineAndBreaksNoJson) {
  UsageReport report = load_of_two_shards();
  report.files = {file("/data/\x1b[2J\nwhy   \xff", 1, 1)};

  EXPECT_NE(report_text(report).find("/data/\\x1b[2J\\x0awhy   \\xff\n"), std::string::npos) << report_text(report);
  EXPECT_FALSE(json::parse(report_json(report), nullptr, false).is_discarded());
}

TEST(UsageReportTest, JsonHasReasonsWithTheirRemedies) {
  const json document = json::parse(report_json(load_of_two_shards()));

  EXPECT_EQ(document["schema"], 1);
  EXPECT_EQ(document["reasons"].size(), 1u);
  EXPECT_EQ(document["reasons"][0]["reason"], "stand_in");
  EXPECT_EQ(document["reasons"][0]["bytes"], 3 << 20);
  EXPECT_FALSE(document["reasons"][0]["remedy"].get<std::string>().empty());
  EXPECT_DOUBLE_EQ(document["busy_seconds"], 1.0);
  EXPECT_EQ(document["ways"][0]["path"], "bounce");
  EXPECT_EQ(document["direct_bytes"], 3 << 20);
  EXPECT_EQ(document["cached_bytes"], 1 << 20);
}

TEST(UsageReportTest, CountersOfSeveralSessionsAreAddedUp) {
  Counters first, second;
  first.add(PathId::bounce, Reason::stand_in, Op::read, 10);
  second.add(PathId::bounce, Reason::stand_in, Op::read, 20);
  second.add(PathId::host, Reason::none, Op::write, 1);
  first.add_direct(PathId::bounce, Op::read, 8);
  second.add_direct(PathId::host, Op::write, 1);
  UsageReport report;

  add_bytes(report, first);
  add_bytes(report, second);

  const std::vector<UsageReport::Moved>& ways = report.ways;
  EXPECT_EQ(report.direct_bytes, 9u);
  ASSERT_EQ(ways.size(), 2u);
  EXPECT_EQ(ways[0].count.bytes, 30u);
  EXPECT_EQ(ways[0].count.operations, 2u);
  EXPECT_EQ(ways[1].op, Op::write);
}

}  // namespace
}  // namespace penstock::core
