// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/timeline_trace.h"

#include <map>
#include <nlohmann/json.hpp>

#include "model/pcie/test_fixture.h"

namespace penstock::model {
namespace {

using Json = nlohmann::json;

class TimelineTrace : public testing::Test {
 protected:
  void SetUp() override {
    const Machine machine = plain_machine(2, 2, 14 * kGiga);
    Workload workload;
    workload.streams = {stream_of("nvme0", "gpu0", 64 * kMebibyte), stream_of("nvme1", "gpu1", 16 * kMebibyte)};
    workload.streams[0].name = "<script>\"&\n\xff";
    network_ = compile(machine, workload);
    outcome_ = simulate(network_, workload);
    trace_ = Json::parse(timeline_trace(network_, outcome_, "a & b"), nullptr, false);
    ASSERT_FALSE(trace_.is_discarded());
  }
  // The integral of one counter over time.
  double area_of(int process, const std::string& name, const char* unit) const {
    double area = 0, since = 0, value = 0;
    for (const Json& event : trace_["traceEvents"]) {
      if (event["ph"] != "C" || event["pid"] != process || event["name"] != name) continue;
      area += value * (event["ts"].get<double>() - since) / 1e6;
      since = event["ts"];
      value = event["args"][unit];
    }
    EXPECT_EQ(value, 0) << name << " does not end";
    return area;
  }

  Network network_;
  Outcome outcome_;
  Json trace_;
};

TEST_F(TimelineTrace, EveryEventIsOneThatTheFormatKnowsAndLiesWithinTheRun) {
  for (const Json& event : trace_["traceEvents"]) {
    const std::string kind = event["ph"];
    EXPECT_TRUE(kind == "M" || kind == "C" || kind == "X") << event;
    EXPECT_TRUE(event["pid"].is_number() && event["name"].is_string()) << event;
    if (kind == "M") continue;
    EXPECT_GE(event["ts"].get<double>(), 0);
    EXPECT_LE(event["ts"].get<double>(), 1e6 * outcome_.seconds * 1.0001);
  }
}

TEST_F(TimelineTrace, AStreamsRatesAddUpToItsBytes) {
  EXPECT_NEAR(area_of(1, outcome_.streams[1].name, "GB/s"), 16.0 * kMebibyte / 1e9, 1e-4);
}

TEST_F(TimelineTrace, AStationsSharesAddUpToTheTimeThatItWasBusy) {
  const std::uint32_t station = outcome_.streams[1].busiest_station;
  ASSERT_NE(station, kNoStation);
  const double busy = outcome_.stations[station].busy_seconds;
  EXPECT_NEAR(area_of(2, network_.stations[station].name, "busy %"), 100 * busy, 0.01 * 100 * busy);
}

TEST_F(TimelineTrace, AStreamHasABarForItsTime) {
  unsigned bars = 0;
  for (const Json& event : trace_["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++bars;
    EXPECT_NEAR(event["ts"].get<double>() + event["dur"].get<double>(),
                1e6 * outcome_.streams[event["tid"].get<std::size_t>() - 1].end_seconds, 1e-3);
  }
  EXPECT_EQ(bars, 2u);
}

}  // namespace
}  // namespace penstock::model
