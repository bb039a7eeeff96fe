// SPDX-License-Identifier: Apache-2.0

#include "topology/distance.h"

#include <gtest/gtest.h>

#include "topology/test_tree.h"

namespace penstock::core {
namespace {

Distance distance(const std::string& machine, std::string_view path, const std::string& gpu) {
  return distance_of(captured_machine(machine), path, gpu);
}

TEST(DistanceTest, OfTwoDrivesTheOneBelowTheGpusSwitchIsNearer) {
  EXPECT_EQ(distance("dgx-h100", "/data/0/kv", "0000:19:00.0"), Distance::same_switch);
  EXPECT_EQ(distance("dgx-h100", "/data/1/kv", "0000:19:00.0"), Distance::apart);
  EXPECT_EQ(distance("dgx-h100", "/data/0/kv", "0000:9b:00.0"), Distance::apart);
  EXPECT_EQ(distance("dgx-h100", "/data/1/kv", "0000:9b:00.0"), Distance::same_switch);
  EXPECT_EQ(distance("dgx-h100", "/home", "0000:19:00.0"), Distance::same_node);
}

TEST(DistanceTest, OfAStripeTheFarthestLegCounts) {
  EXPECT_EQ(distance("md-good", "/scratch", "0000:18:00.0"), Distance::same_switch);
  EXPECT_NE(distance("md-far-leg", "/scratch", "0000:03:00.0"), Distance::same_switch);
}

TEST(DistanceTest, WhatIsNoPciDeviceIsUnknown) {
  EXPECT_EQ(distance("laptop", "/nowhere", "0000:99:00.0"), Distance::unknown);
  EXPECT_EQ(distance("dgx-h100", "/data/0", ""), Distance::unknown);
  EXPECT_EQ(distance("firecracker-vm", "/", "0000:01:00.0"), Distance::unknown);
  TestTree tree;
  EXPECT_EQ(distance_of(tree.root(), "/", "0000:01:00.0"), Distance::unknown);
}

}  // namespace
}  // namespace penstock::core
