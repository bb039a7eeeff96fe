// SPDX-License-Identifier: Apache-2.0

#include "tools/stats/drives.h"

#include <gtest/gtest.h>

#include "topology/test_tree.h"

namespace penstock::tools {
namespace {

std::string stat(std::uint64_t read, std::uint64_t written, std::uint64_t busy_ms) {
  return "  10 0 " + std::to_string(read) + " 7 20 0 " + std::to_string(written) + " 9 0 " + std::to_string(busy_ms) +
         " 16 0 0 0 0 0 0\n";
}

TEST(Drives, AreThoseWithADeviceOfTheirOwn) {
  core::TestTree tree;
  tree.put("/sys/block/nvme0n1/stat", stat(8, 16, 5)).put("/sys/block/nvme0n1/device/model", "");
  tree.put("/sys/block/md0/stat", stat(8, 16, 5));
  tree.put("/sys/block/sda/stat", "1 2 fish\n").put("/sys/block/sda/device/model", "");

  const DriveCounts drives = read_drives(tree.root());

  ASSERT_EQ(drives.size(), 1u);
  EXPECT_EQ(drives.at("nvme0n1").read_bytes, 8u * 512);
  EXPECT_EQ(drives.at("nvme0n1").written_bytes, 16u * 512);
  EXPECT_EQ(drives.at("nvme0n1").busy_ms, 5u);
}

TEST(Drives, RatesAreOfWhatWentSinceTheLookBefore) {
  DriveRates rates;
  EXPECT_TRUE(rates.add({{"a", {1000, 0, 0}}, {"b", {0, 0, 0}}, {"idle", {5, 5, 5}}}, 0).empty());

  const auto told =
      rates.add({{"a", {3000, 0, 500}}, {"b", {0, 8000, 9000}}, {"idle", {5, 5, 5}}, {"new", {9, 9, 9}}}, 2);

  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].name, "b");
  EXPECT_EQ(told[0].written, 4000);
  EXPECT_EQ(told[0].busy, 1);  // Never more than all of the time.
  EXPECT_EQ(told[1].read, 1000);
  EXPECT_EQ(told[1].busy, 0.25);
}

TEST(Drives, CountersThatWentBackAreNoBytes) {
  DriveRates rates;
  rates.add({{"a", {1000, 0, 0}}}, 0);
  EXPECT_TRUE(rates.add({{"a", {10, 0, 0}}}, 1).empty());
}

}  // namespace
}  // namespace penstock::tools
