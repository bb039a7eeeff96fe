// SPDX-License-Identifier: Apache-2.0

#include "tools/stats/report.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "fakes/prometheus_check.h"
#include "stats/layout.h"

namespace penstock::tools {
namespace {

using core::Op;

ProcessView process_of(pid_t pid, std::uint64_t bytes) {
  core::StatsSnapshot session;
  session.id = 77;
  session.library = "0.1.0";
  session.rows.push_back({"bounce", "stand_in", Op::read, bytes, 2});
  core::StatsHistogram histogram{.path = "bounce", .op = Op::read};
  histogram.sizes.resize(core::kSizeBuckets);
  histogram.sizes[core::size_bucket(bytes / 2)] = 2;
  histogram.latencies.resize(core::kLatencyBuckets);
  histogram.latencies[core::latency_bucket(12'000)] = 2;
  histogram.latency_sum = 24'000;
  session.histograms.push_back(histogram);
  return {.pid = pid, .command = "train", .sessions = {session}};
}

TEST(StatsReportTest, TellsBytesAndOperationsByPathAndReason) {
  const std::string text = process_text(process_of(4711, 8192));

  EXPECT_NE(text.find("process 4711 (train), Penstock 0.1.0, 1 session open"), std::string::npos) << text;
  EXPECT_NE(text.find("bounce  stand_in  read           2  8 KiB"), std::string::npos) << text;
  EXPECT_NE(text.find("12.0 us"), std::string::npos) << text;
}

Moved moved_between(const ProcessView& before, const ProcessView& now, double seconds) {
  Rates rates;
  rates.add({{before}}, 0);
  return rates.add({{now}}, seconds).processes[0].moved;
}

TEST(StatsReportTest, RatesAreOfTheTimeBetweenTwoLooks) {
  const ProcessView now = process_of(1, 3'000'000'000);
  const Moved moved = moved_between(process_of(1, 1'000'000'000), now, 2);

  const std::string text = process_text(now, &moved);

  EXPECT_NE(text.find("1.00 GB/s"), std::string::npos) << text;
}

TEST(StatsReportTest, ASessionThatWasClosedMakesNoRateNegative) {
  const ProcessView now = process_of(1, 1000);
  const Moved moved = moved_between(process_of(1, 3'000'000'000), now, 2);

  const std::string text = process_text(now, &moved);

  EXPECT_NE(text.find("0.00 MB/s"), std::string::npos) << text;
  EXPECT_EQ(text.find('-'), std::string::npos) << text;
}

TEST(StatsReportTest, SessionsOfAProcessAddUp) {
  ProcessView process = process_of(1, 1000);
  process.sessions.push_back(process.sessions[0]);

  const Ways ways = counts_of(process.sessions);

  ASSERT_EQ(ways.size(), 1u);
  EXPECT_EQ(ways.begin()->second.bytes, 2000u);
  EXPECT_EQ(process_json(process)["sessions"].size(), 2u);
}

TEST(StatsReportTest, OfEachProcessThePathsAreToldWithTheirShares) {
  ProcessView process = process_of(4711, 3000);
  process.sessions[0].rows.push_back({"host", "none", Op::read, 1000, 1});

  const std::string text = machine_text({.processes = {process}});

  EXPECT_NE(text.find("bounce 75 %, host 25 %\n"), std::string::npos) << text;
}

TEST(StatsReportTest, ProcessesThatWereLeftOutForALimitAreCounted) {
  const MachineView machine{.not_looked_at = 2};

  EXPECT_NE(machine_text(machine).find("2 processes were looked at in part only"), std::string::npos);
  EXPECT_EQ(machine_json(machine)["processes_not_looked_at"], 2);
}

TEST(PrometheusTest, IsWellFormedAndHasEveryNumber) {
  const PrometheusPage page = parse_prometheus(prometheus_text({process_of(1, 8192), process_of(2, 20)}));

  EXPECT_EQ(page.faults, std::vector<std::string>{});
  const std::string labels = R"({pid="1",session="77",path="bounce",reason="stand_in",op="read"})";
  EXPECT_EQ(page.values.at("penstock_bytes_total" + labels), 8192);
  EXPECT_EQ(page.values.at("penstock_operations_total" + labels), 2);
  EXPECT_EQ(page.values.at(R"(penstock_request_seconds_count{pid="1",session="77",path="bounce",op="read"})"), 2);
  EXPECT_EQ(page.values.at(R"(penstock_request_bytes_bucket{pid="1",session="77",path="bounce",op="read",le="4095"})"),
            0);
  EXPECT_EQ(page.values.at(R"(penstock_request_bytes_bucket{pid="1",session="77",path="bounce",op="read",le="16383"})"),
            2);
  EXPECT_EQ(page.values.at(R"(penstock_request_bytes_bucket{pid="2",session="77",path="bounce",op="read",le="4095"})"),
            2);
}

TEST(PrometheusTest, NamesThatPeopleChooseCannotBreakThePage) {
  ProcessView process = process_of(1, 8192);
  process.command = "a\"b\\c\nd} 5";

  const PrometheusPage page = parse_prometheus(prometheus_text({process}));

  EXPECT_EQ(page.faults, std::vector<std::string>{});
  EXPECT_EQ(page.values.count(R"(penstock_session_info{pid="1",session="77",command="a\"b\\c\nd} 5",version="0.1.0"})"),
            1u);
}

TEST(PrometheusTest, NobodyHasAnEmptyPageThatIsWellFormed) {
  EXPECT_EQ(parse_prometheus(prometheus_text({})).faults, std::vector<std::string>{});
}

TEST(PrometheusTest, TheCheckFindsFaults) {
  for (const char* const page :
       {"a 1\n", "# TYPE a counter\na 1\n", "# HELP a x\n# TYPE a counter\na_total{b=\"c} 1\n",
        "# HELP a x\n# TYPE a counter\na one\n", "# HELP a x\n# TYPE a counter\na 1\na 1\n",
        "# HELP a x\n# TYPE a counter\na 1",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 2\n"}) {
    EXPECT_FALSE(parse_prometheus(page).faults.empty()) << page;
  }
}

}  // namespace
}  // namespace penstock::tools
