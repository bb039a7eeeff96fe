// SPDX-License-Identifier: Apache-2.0

// Which variant is called the fastest, of rows put together by hand.
#include "tools/demo/report.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

struct Rows {
  DemoVariant ring, thread, host;
  DemoFound found;
  std::vector<DemoRow>& rows = found.rows;

  Rows() {
    ring.path = thread.path = "bounce";
    ring.how = "io_uring, O_DIRECT";
    thread.how = "preadv2, buffered";
    host.path = "host";
    host.host_memory = true;
  }
  void add(const DemoVariant& way, double rate, bool is_cached = false) {
    add_round(rows, {.way = &way, .operation = "read", .gb_per_s = {rate}, .cpu_per_gb = {1}, .is_cached = is_cached});
  }
};

TEST(DemoReport, RangesThatDoNotOverlapTellTheFaster) {
  Rows world;
  for (const double rate : {5.0, 5.2, 4.9}) world.add(world.ring, rate);
  for (const double rate : {4.0, 4.8, 4.1}) world.add(world.thread, rate);
  world.add(world.host, 99);
  const Fastest best = fastest_of(world.rows, "read", true);
  ASSERT_NE(best.row, nullptr);
  EXPECT_EQ(best.row->name(), "bounce, io_uring, O_DIRECT");
  EXPECT_EQ(best.row->rate(), 5.0);
  EXPECT_TRUE(best.unbeaten.empty());
  EXPECT_EQ(fastest_of(world.rows, "write", true).row, nullptr);
}

TEST(DemoReport, RangesThatOverlapTellNothing) {
  Rows world;
  for (const double rate : {5.0, 5.2, 4.5}) world.add(world.ring, rate);
  for (const double rate : {4.0, 4.8, 4.1}) world.add(world.thread, rate);
  const Fastest best = fastest_of(world.rows, "read", true);
  ASSERT_EQ(best.unbeaten.size(), 1u);
  EXPECT_EQ(best.unbeaten[0]->name(), "bounce, preadv2, buffered");
}

TEST(DemoReport, CachedPagesWinNoMeasurementOfADrive) {
  Rows world;
  world.add(world.ring, 1);
  world.add(world.thread, 5, true);
  EXPECT_TRUE(fastest_of(world.rows, "read", true).row->is_cached);
  EXPECT_EQ(fastest_of(world.rows, "read", false).row->name(), "bounce, io_uring, O_DIRECT");
  const Json json = demo_json(1, Json(), world.found);
  EXPECT_EQ(json["fastest"][0]["cached"], true);
  EXPECT_EQ(json["rows"][0]["rounds_gb_per_s"], Json({1.0}));
}

TEST(DemoReport, OtherProgramsThatRanMeanwhileAreToldAsByBench) {
  Rows world;
  world.add(world.ring, 1);
  EXPECT_EQ(demo_text(world.found).string().find("warning"), std::string::npos);
  world.found.share_of_others = 0.4;
  EXPECT_NE(demo_text(world.found).string().find("\nwarning: other programs had 40 % of the processors meanwhile\n"),
            std::string::npos);
  EXPECT_EQ(demo_json(1, Json(), world.found)["cpu_share_of_others"], 0.4);
}

}  // namespace
}  // namespace penstock::tools
