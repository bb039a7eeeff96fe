// SPDX-License-Identifier: Apache-2.0

#include "tools/check/bus_tree.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

BusEnd end_of(EndKind kind, const char* address, int node, const char* bridge, std::vector<std::string> bridges,
              std::vector<std::string> names = {}) {
  core::PciDevice device;
  device.address = address;
  device.numa_node = node;
  device.host_bridge = bridge;
  device.bridges = std::move(bridges);
  device.current_link = device.max_link = {16, 4};
  return {device, kind, std::move(names)};
}

std::vector<BusEnd> two_nodes() {
  const std::vector<std::string> below = {"0000:15:01.0", "0000:16:00.0", "0000:17:00.0"};
  return {end_of(EndKind::gpu, "0000:18:00.0", 0, "pci0000:15", below),
          end_of(EndKind::drive, "0000:19:00.0", 0, "pci0000:15", below, {"nvme0"}),
          end_of(EndKind::nic, "0000:a0:00.0", 1, "pci0000:9f", {"0000:9f:01.0"}, {"mlx5_0", "eth4"})};
}

TEST(BusTreeTest, WhatEndsHaveInCommonIsSaidOnce) {
  EXPECT_EQ(bus_tree_text(two_nodes()),
            "NUMA node 0\n"
            "  host bridge pci0000:15\n"
            "    switch 0000:16:00.0\n"
            "      GPU    0000:18:00.0                       PCIe 16 GT/s x4\n"
            "      drive  nvme0 0000:19:00.0                 PCIe 16 GT/s x4\n"
            "NUMA node 1\n"
            "  host bridge pci0000:9f\n"
            "    NIC    mlx5_0 eth4 0000:a0:00.0             PCIe 16 GT/s x4\n");
}

TEST(BusTreeTest, ASwitchThatComesAgainBelowAnotherBridgeIsSaidAgain) {
  std::vector<BusEnd> ends = two_nodes();
  ends[1].device.host_bridge = "pci0000:16";
  const std::string text = bus_tree_text(ends);
  EXPECT_NE(text.find("switch 0000:16:00.0"), text.rfind("switch 0000:16:00.0")) << text;
}

TEST(BusTreeTest, EveryDriveAndNicHasItsDistanceFromEveryGpu) {
  const std::string text = distances_text(two_nodes());
  EXPECT_NE(text.find("nvme0 0000:19:00.0        switch"), std::string::npos) << text;
  EXPECT_NE(text.find("mlx5_0 eth4 0000:a0:00.0  apart"), std::string::npos) << text;
  const Json rows = distances_json(two_nodes());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1]["relation"], "apart");
  EXPECT_EQ(distances_text({}), "");
}

TEST(BusTreeTest, TheNearestNicsOfEachGpuAndDriveAreNamed) {
  std::vector<BusEnd> ends = two_nodes();
  for (const char* address : {"0000:1a:00.0", "0000:1b:00.0"}) {
    BusEnd nic = ends[1];
    nic.kind = EndKind::nic;
    nic.device.address = address;
    nic.names = {address + 5};
    ends.push_back(nic);
  }
  const std::string text = nearest_nics_text(ends);
  EXPECT_NE(text.find("1a:00.0, 1b:00.0  switch"), std::string::npos) << text;
  EXPECT_EQ(text.find("mlx5_0"), std::string::npos) << "it is farther: " << text;
  const Json rows = nearest_nics_json(two_nodes());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1]["nics"][0], "mlx5_0");
  EXPECT_EQ(rows[1]["relation"], "apart");
  EXPECT_EQ(nearest_nics_text({}), "");
}

TEST(BusTreeTest, GpusOfSeveralPciDomainsAreNamedInFull) {
  std::vector<BusEnd> ends = two_nodes();
  ends.push_back(end_of(EndKind::gpu, "0009:18:00.0", 1, "pci0009:00", {"0009:00:00.0"}));
  const std::string text = distances_text(ends);
  EXPECT_NE(text.find("0000:18:00.0  0009:18:00.0"), std::string::npos) << text;
}

}  // namespace
}  // namespace penstock::tools
