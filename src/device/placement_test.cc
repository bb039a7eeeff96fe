// SPDX-License-Identifier: Apache-2.0

#include "device/placement.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace penstock::core {
namespace {

// Two NUMA nodes, of CPUs 0-15,32-47 and 16-31,48-63, and a third with memory only.
class PlacementTest : public testing::Test {
 protected:
  PlacementTest() : root_(testing::TempDir() + "/placement_XXXXXX") {
    EXPECT_NE(::mkdtemp(root_.data()), nullptr);
    const std::string nodes = root_ + "/sys/devices/system/node";
    for (const char* node : {"/node0", "/node1", "/node2"}) std::filesystem::create_directories(nodes + node);
    std::ofstream(nodes + "/online") << "0-2\n";
    std::ofstream(nodes + "/node0/cpulist") << "0-15,32-47\n";
    std::ofstream(nodes + "/node1/cpulist") << "16-31,48-63\n";
    std::ofstream(nodes + "/node2/cpulist") << "\n";
  }
  ~PlacementTest() override { std::filesystem::remove_all(root_); }

  Result<Placement> on_machine(const char* text, const char* allowed = "0-63") const {
    return placement_on(root_, parse_placement(text).value(), parse_cpu_list(allowed));
  }
  std::string text_of(const char* text, const char* allowed = "0-63") const {
    const Result<Placement> placement = on_machine(text, allowed);
    return placement.ok() ? placement_text(*placement) : describe(placement.status());
  }

  std::string root_;
};

TEST_F(PlacementTest, OnlyFourKindsOfTextsAreTaken) {
  for (const char* text : {"auto", "off", "node:0", "node:1023", "cpus:0", "cpus:0-3,8"}) {
    EXPECT_TRUE(is_placement(text)) << text;
  }
  for (const char* text : {"", "Auto ", "on", "node:", "node:-1", "node:1024", "node:1x", "node: 1",
                           "cpus:", "cpus:3-1", "cpus:8192", "cpus:0,", "0-3", "node:99999999999", "gpu"}) {
    EXPECT_FALSE(is_placement(text)) << text;
  }
}

TEST_F(PlacementTest, ANodeBringsItsCpusAndCpusTheirNode) {
  EXPECT_EQ(text_of("node:1"), "node:1: pinned memory on NUMA node 1, threads on CPUs 16-31,48-63");
  EXPECT_EQ(text_of("cpus:20-23"), "cpus:20-23: pinned memory on NUMA node 1, threads on CPUs 20-23");
  EXPECT_EQ(text_of("cpus:15-16"), "cpus:15-16: pinned memory on no node in particular, threads on CPUs 15-16");
  EXPECT_EQ(text_of("auto"), "auto: near the GPU that they work for");
  EXPECT_EQ(text_of("off"), "off: wherever the kernel puts them");
}

TEST_F(PlacementTest, ANodeOfMemoryAloneKeepsThreadsWhereTheyAre) {
  EXPECT_EQ(text_of("node:2"), "node:2: pinned memory on NUMA node 2");
}

TEST_F(PlacementTest, ANodeThatIsNotThereIsRefusedWithThoseThatAre) {
  EXPECT_TRUE(on_machine("node:3").status().is(Code::bad_setting));
  EXPECT_NE(text_of("node:3").find("use placement=node:3: this machine has no NUMA node 3, but 0-2"), std::string::npos)
      << text_of("node:3");
}

TEST_F(PlacementTest, CpusThatTheProcessMayNotUseAreRefusedWithThoseThatItMay) {
  EXPECT_TRUE(on_machine("cpus:40-47", "0-7").status().is(Code::bad_setting));
  EXPECT_NE(text_of("node:1", "0-7").find("may use none of the CPUs 16-31,48-63, but 0-7"), std::string::npos)
      << text_of("node:1", "0-7");
  EXPECT_TRUE(on_machine("cpus:6-9", "0-7").ok()) << "some are enough";
}

TEST_F(PlacementTest, WhereNothingIsToldOfNodesNoneIsThere) {
  std::filesystem::remove_all(root_ + "/sys");
  EXPECT_FALSE(on_machine("node:0").ok());
  EXPECT_EQ(on_machine("cpus:1").value().node, -1);
}

}  // namespace
}  // namespace penstock::core
