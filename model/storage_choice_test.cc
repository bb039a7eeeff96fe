// SPDX-License-Identifier: Apache-2.0

#include "model/storage_choice.h"

#include <gtest/gtest.h>

#include "model/input.h"

namespace penstock::model {
namespace {

// 16 nodes at 32.48 $ an hour; 8 drives of 7 GB/s each reach 60 %, 33.6 GB/s, all nodes together 537.6. A month has
// 1,000 saves.
CostInput sixteen_nodes() {
  CostInput input;
  input.job.bytes = 5376e9;
  input.saves = 100;
  input.hours = 73;
  input.fleet.nodes = 16;
  input.fleet.drives = 8;
  input.fleet.drive_bytes_per_s = 7e9;
  input.file_system = FileSystem{"shared", 80, 96e9, 20000, "of this test"};
  return input;
}

Platform h100(double drives_hour) {
  Platform one;
  one.name = "h100";
  one.on_demand = 4.06;
  one.drives_hour = drives_hour;
  one.gds = GdsStanding::ready;
  return one;
}

TEST(StorageChoice, EachWayTakesWhatItsSlowestPartTakes) {
  const std::vector<Platform> platforms = {h100(0.5)};
  const std::vector<StorageRow> rows = storage_rows(platforms, sixteen_nodes(), Constants());

  ASSERT_EQ(rows.size(), 3u);
  const auto& [alone, drained, drives] = std::tie(rows[0], rows[1], rows[2]);
  EXPECT_NEAR(alone.save_s, 56, 1e-9);  // 5,376 / 96
  EXPECT_NEAR(alone.waiting_hours, 15.5556, 1e-4);
  EXPECT_NEAR(alone.waiting, 15.5556 * 16 * 32.48, 0.1);
  EXPECT_EQ(alone.drives, 0);
  EXPECT_EQ(alone.file_system, 20000);
  EXPECT_NEAR(drained.save_s, 10, 1e-9);  // 5,376 / 537.6
  EXPECT_NEAR(drained.drain_s, 56, 1e-9);
  EXPECT_NEAR(drained.drives, 16 * 0.5 * 730, 1e-9);
  EXPECT_NEAR(drained.money(), 1443.56 + 5840 + 20000, 0.01);
  EXPECT_EQ(drives.drain_s, 0);
  EXPECT_EQ(drives.file_system, 0);
}

TEST(StorageChoice, FewNodesAreHeldBackByTheirPorts) {
  CostInput input = sixteen_nodes();
  input.fleet.nodes = 1;
  const std::vector<Platform> platforms = {h100(0)};
  const std::vector<StorageRow> rows = storage_rows(platforms, input, Constants());

  EXPECT_NEAR(rows[0].save_s, 5376.0 / 50, 1e-9);
  EXPECT_NEAR(rows[1].save_s, 5376 / 33.6, 1e-9);
  EXPECT_NEAR(rows[1].drain_s, 5376 / 33.6, 1e-9);  // The drives' read rate is the limit.
}

// 0.5 $ an hour for drives are 40,455.7 s of a node a month; 1,000 saves must spare 40.46 s each.
TEST(StorageChoice, DrivesPayFromTheClosedFormsOn) {
  const StorageBreakEven even = storage_break_even(h100(0.5), false, sixteen_nodes(), Constants());

  const double price_s = 0.5 * 730 * 3600 / 32.48;
  ASSERT_TRUE(even.saves && even.nodes && even.bytes_per_s);
  EXPECT_NEAR(*even.saves, price_s / (56 - 10), 1e-6);
  EXPECT_EQ(*even.nodes, 11u);  // 56 - 160 / n > 40.46
  EXPECT_NEAR(*even.bytes_per_s, 5376e9 / (10 + price_s / 1000), 1);
}

TEST(StorageChoice, AtTheBreakEvenBothCostTheSame) {
  CostInput input = sixteen_nodes();
  const std::vector<Platform> platforms = {h100(0.5)};
  const StorageBreakEven even = storage_break_even(platforms[0], false, input, Constants());
  input.saves *= *even.saves / 1000;
  std::vector<StorageRow> rows = storage_rows(platforms, input, Constants());
  EXPECT_NEAR(rows[0].money(), rows[1].money(), 1e-6);

  input = sixteen_nodes();
  input.file_system->bytes_per_s = *even.bytes_per_s;
  rows = storage_rows(platforms, input, Constants());
  EXPECT_NEAR(rows[0].money(), rows[1].money(), 1e-6);
}

TEST(StorageChoice, DrivesThatCostMoreThanTheySpareNeverPay) {
  CostInput input = sixteen_nodes();
  EXPECT_FALSE(storage_break_even(h100(1), false, input, Constants()).nodes);  // 80.9 s, and a save takes 56.
  input.file_system->bytes_per_s = 1e12;                                       // Limited by the ports: 800 GB/s, 6.7 s.
  const StorageBreakEven even = storage_break_even(h100(0), false, input, Constants());
  EXPECT_FALSE(even.saves);
  EXPECT_EQ(even.nodes.value(), 30u);  // 30 x 33.6 GB/s are more than 1,000.
  EXPECT_NEAR(even.bytes_per_s.value(), 537.6e9, 1);
}

TEST(StorageChoice, AMachineWithoutDrivesHasTheFileSystemAlone) {
  Platform bare = h100(0);
  bare.drives = 0;
  const std::vector<Platform> platforms = {bare};
  EXPECT_EQ(storage_rows(platforms, sixteen_nodes(), Constants()).size(), 1u);
}

TEST(StorageChoice, StorageIsPricedByItsRateWhereThePriceIsKnown) {
  const auto prices = [](const CostInput& input) {
    std::vector<Json> found;
    const std::vector<Platform> platforms = {h100(0.5)};
    const Sheet sheet = storage_sheets(platforms, input, Constants())[0];
    EXPECT_EQ(sheet.columns.back().name, "gb_per_s_month_money");
    for (const auto& one : sheet.rows) found.push_back(one.back());
    return found;
  };
  CostInput input = sixteen_nodes();
  std::vector<Json> found = prices(input);
  EXPECT_NEAR(found.at(0).get<double>(), 20000.0 / 96, 1e-9);
  EXPECT_NEAR(found.at(1).get<double>(), (20000 + 5840) / 537.6, 1e-9);
  EXPECT_NEAR(found.at(2).get<double>(), 5840 / 537.6, 1e-9);
  input.file_system->month_money = 0;
  found = prices(input);
  EXPECT_TRUE(found.at(0).is_null() && found.at(1).is_null());
  EXPECT_NEAR(found.at(2).get<double>(), 5840 / 537.6, 1e-9);
}

TEST(StorageChoice, AFileSystemGrowsWithItsSize) {
  const FileSystem twice = FileSystem{"shared", 80, 96e9, 20000, ""}.of_size(160);
  EXPECT_NEAR(twice.bytes_per_s, 192e9, 1);
  EXPECT_NEAR(twice.month_money, 40000, 1e-6);
}

TEST(StorageChoice, ADrainThatIsSlowerThanSavesComeIsSaid) {
  CostInput input = sixteen_nodes();
  input.saves = 73 * 300;  // One every 12 s.
  const std::vector<Platform> platforms = {h100(0)};
  const Report report = cost_report(platforms, input, Constants());
  for (const Sheet& sheet : report.sheets) {
    if (sheet.name == "storage") {
      EXPECT_EQ(sheet.rows[1][5], "one save in 5");  // 56 / 12
    }
  }
  input.fleet.nodes = 0;
  EXPECT_THROW(cost_report(platforms, input, Constants()), InvalidInput);
}

}  // namespace
}  // namespace penstock::model
