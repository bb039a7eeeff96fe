// SPDX-License-Identifier: Apache-2.0

#include "tools/check/read_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace penstock::tools {
namespace {

// Below a switch of its own on each socket.
BusEnd end_of(EndKind kind, int socket, int number) {
  core::PciDevice device;
  device.address = "0000:" + std::to_string(socket + 1) + std::to_string(number) + ":00.0";
  device.numa_node = socket;
  device.host_bridge = "pci0000:0" + std::to_string(socket);
  const std::string port = "0000:0" + std::to_string(socket);
  device.bridges = {port + ":01.0", port + ":02.0", port + ":03.0"};
  device.vendor = kind == EndKind::gpu ? 0x10de : 0x144d;
  device.device_class = kind == EndKind::gpu ? 0x030200 : 0x010802;
  device.current_link = device.max_link = {16, kind == EndKind::gpu ? 16u : 4u};
  return {device, kind, {}};
}

// With their bridges.
ReadPlan plan_of(const std::vector<BusEnd>& ends) {
  std::vector<core::PciDevice> devices;
  for (const BusEnd& end : ends) {
    devices.push_back(end.device);
    core::PciDevice bridge;
    bridge.address = end.device.bridges[1];
    bridge.device_class = 0x060400;
    bridge.current_link = bridge.max_link = {16, 16};
    devices.push_back(bridge);
  }
  return plan_reads(devices, ends);
}

TEST(ReadPlanTest, EachGpuReadsTheDriveOfItsOwnSwitch) {
  std::vector<BusEnd> ends = {end_of(EndKind::gpu, 0, 1), end_of(EndKind::drive, 0, 2), end_of(EndKind::gpu, 1, 1),
                              end_of(EndKind::drive, 1, 2), end_of(EndKind::drive, 0, 0)};
  ends.back().device.bridges.resize(2);  // On the socket itself, and first by its address.
  const ReadPlan plan = plan_of(ends);
  ASSERT_EQ(plan.reads.size(), 2u) << plan.not_made;
  for (const PlannedRead& read : plan.reads) {
    EXPECT_EQ(read.relation, "switch");
    EXPECT_EQ(read.placement(), read.gpu == ends[0].device.address ? "node:0" : "node:1");
    EXPECT_GT(read.bytes_per_second, 5e9);  // Gen4 x4: 7.9 GB/s less headers.
    EXPECT_LT(read.bytes_per_second, 7.9e9);
  }
  EXPECT_EQ(plan.crossings(), 0u);
  EXPECT_EQ(plan.bound_by, "0000:12:00.0, up");
  EXPECT_EQ(plan.idle, std::vector<std::string>{ends.back().device.address});
  EXPECT_NEAR(plan.bytes_per_second, plan.reads[0].bytes_per_second + plan.reads[1].bytes_per_second, 1e8);
}

TEST(ReadPlanTest, ADriveOnTheOtherSocketIsTakenAndTold) {
  const std::vector<BusEnd> ends = {end_of(EndKind::gpu, 0, 1), end_of(EndKind::drive, 1, 2),
                                    end_of(EndKind::drive, 1, 3)};
  const ReadPlan plan = plan_of(ends);
  EXPECT_EQ(plan.crossings(), 1u);
  EXPECT_EQ(plan.idle.size(), 1u);
  const std::string text = read_plan_text(plan, ends);
  EXPECT_NE(text.find("1 of 1 reads cross from one NUMA node to another"), std::string::npos) << text;
  EXPECT_NE(text.find("1 drive is left over"), std::string::npos) << text;
  EXPECT_EQ(plan.reads[0].placement(), "node:0") << "the GPU's, not the drive's";
}

TEST(ReadPlanTest, ANearPairIsNotBrokenUpForAGpuThatIsNearToNothing) {
  std::vector<BusEnd> ends = {end_of(EndKind::gpu, 0, 1), end_of(EndKind::gpu, 1, 1), end_of(EndKind::drive, 1, 2),
                              end_of(EndKind::drive, 0, 3)};
  ends[3].device.bridges.resize(2);
  ends[3].device.bridges[0] = "0000:00:09.0";
  ends[3].device.host_bridge = "pci0000:07";
  const ReadPlan plan = plan_of(ends);
  ASSERT_EQ(plan.reads.size(), 2u);
  EXPECT_EQ(plan.reads[0].gpu, ends[1].device.address);
  EXPECT_EQ(plan.reads[0].drive, ends[2].device.address);
  EXPECT_EQ(plan.reads[0].relation, "switch");
  EXPECT_EQ(plan.reads[1].relation, "node");
  EXPECT_EQ(plan.crossings(), 0u);
}

TEST(ReadPlanTest, WithMoreGpusThanDrivesADriveIsSharedByAsFewAsCanBe) {
  std::vector<BusEnd> ends;
  for (int i = 0; i < 4; ++i) ends.push_back(end_of(EndKind::gpu, i % 2, 3 + i));
  ends.push_back(end_of(EndKind::drive, 0, 1));
  ends.push_back(end_of(EndKind::drive, 1, 1));
  const ReadPlan plan = plan_of(ends);
  ASSERT_EQ(plan.reads.size(), 4u);
  EXPECT_EQ(plan.crossings(), 0u);
  EXPECT_EQ(std::count_if(plan.reads.begin(), plan.reads.end(),
                          [&](const PlannedRead& read) { return read.drive == ends[4].device.address; }),
            2);
}

TEST(ReadPlanTest, WhatHasNoKnownLinkIsLeftOutAndTold) {
  std::vector<BusEnd> ends = {end_of(EndKind::gpu, 0, 1), end_of(EndKind::gpu, 0, 4), end_of(EndKind::drive, 0, 2),
                              end_of(EndKind::drive, 0, 3)};
  ends[1].device.current_link = ends[1].device.max_link = {};
  ends[3].device.current_link = ends[3].device.max_link = {};
  const ReadPlan plan = plan_of(ends);
  EXPECT_EQ(plan.reads.size(), 1u);
  EXPECT_EQ(plan.left_out, 2u);
  EXPECT_TRUE(plan.idle.empty());
  EXPECT_NE(read_plan_text(plan, ends).find("Left out: 2"), std::string::npos);
}

TEST(ReadPlanTest, WhereSomethingIsMissingThereIsNoPlanButASentence) {
  EXPECT_NE(plan_of({}).not_made.find("no GPU"), std::string::npos);
  EXPECT_NE(plan_of({end_of(EndKind::gpu, 0, 1)}).not_made.find("no NVMe drive"), std::string::npos);
  std::vector<BusEnd> blind = {end_of(EndKind::gpu, 0, 1), end_of(EndKind::drive, 0, 2)};
  for (BusEnd& end : blind) end.device.current_link = end.device.max_link = {};
  const ReadPlan plan = plan_of(blind);
  EXPECT_NE(plan.not_made.find("link"), std::string::npos) << plan.not_made;
  EXPECT_TRUE(read_plan_json(plan).contains("not_made"));
}

}  // namespace
}  // namespace penstock::tools
