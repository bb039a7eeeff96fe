// SPDX-License-Identifier: Apache-2.0

#include "k8s/nodes.h"

#include <gtest/gtest.h>

#include <string>

#include "tools/common/failure.h"

namespace penstock::tools::k8s {
namespace {

nlohmann::json node(const char* os, const char* kernel, const char* gpu) {
  return {{"kind", "Node"},
          {"metadata", {{"name", "one"}, {"labels", {{"nvidia.com/gpu.product", gpu}}}}},
          {"status",
           {{"nodeInfo",
             {{"osImage", os}, {"kernelVersion", kernel}, {"containerRuntimeVersion", "containerd://2.1.4"}}}}}};
}

Choice chosen(const nlohmann::json& object, const char* storage = "xfs") {
  return choose(read_nodes(object.dump(), "nodes").at(0), storage, "nas:/models");
}

TEST(NodesTest, ListsAndSingleNodesAreRead) {
  const auto one = node("Ubuntu 24.04.1 LTS", "6.8.0-1051-nvidia", "NVIDIA-H100-80GB-HBM3");
  const nlohmann::json list = {{"kind", "List"}, {"items", {one, {{"kind", "Pod"}}, one}}};

  const auto nodes = read_nodes(list.dump(), "nodes");

  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].os, "ubuntu24.04");
  EXPECT_EQ(nodes[0].runtime, "containerd-2.1.4");
  EXPECT_TRUE(nodes[0].has_gpu);
  EXPECT_EQ(read_nodes(node("Rocky Linux 9.4 (Blue Onyx)", "5.14", "").dump(), "")[0].os, "rocky9");
  EXPECT_EQ(read_nodes(node("Red Hat Enterprise Linux CoreOS 418.94", "5.14", "").dump(), "")[0].os, "rhcos418");
  EXPECT_EQ(read_nodes(node("Talos (v1.8.0)", "6.6", "").dump(), "")[0].os, "talosv180");
}

TEST(NodesTest, TheBestPathThatMayWorkIsChosenWithWhyNoBetterOne) {
  EXPECT_EQ(chosen(node("Ubuntu 24.04.1 LTS", "6.8.0-52-generic", "NVIDIA-H100-80GB-HBM3")).path, "p2pdma");
  const Choice patched = chosen(node("Ubuntu 22.04.5 LTS", "5.15.0-1062-nvidia", "NVIDIA-H100-80GB-HBM3"));
  EXPECT_EQ(patched.path, "nvidia-fs");
  ASSERT_EQ(patched.refusals.size(), 1u);
  EXPECT_EQ(patched.refusals[0].rule, "p2pdma_needs");
  const Choice old = chosen(node("Rocky Linux 9.4 (Blue Onyx)", "5.14.0-427.el9", "NVIDIA-H100-80GB-HBM3"));
  EXPECT_EQ(old.path, "bounce");
  EXPECT_EQ(old.paths, (std::vector<std::string>{"p2pdma", "nvidia-fs"}));
}

TEST(NodesTest, AGpuThatIsNotNamedAndACloudAreNotPromisedPeerToPeer) {
  EXPECT_EQ(chosen(node("Ubuntu 24.04.1 LTS", "6.8.0-52-generic", "Tesla-T4")).path, "bounce");
  EXPECT_EQ(chosen(node("Ubuntu 24.04.1 LTS", "6.8.0-52-generic", "NVIDIA-L40S")).path, "p2pdma");
  EXPECT_EQ(chosen(node("Ubuntu 24.04.1 LTS", "6.8.0-52-generic", "NVIDIA-L40")).path, "bounce");
  auto cloud = node("Ubuntu 24.04.1 LTS", "6.8.0-52-generic", "NVIDIA-H100-80GB-HBM3");
  cloud["spec"]["providerID"] = "aws:///us-east-1a/i-0";
  EXPECT_EQ(chosen(cloud).path, "bounce");
}

nlohmann::json labeled(nlohmann::json object, const std::string& path, const char* standing, const char* reason) {
  const std::string label = "feature.node.kubernetes.io/penstock-path-" + path;
  object["metadata"]["labels"][label + "-standing"] = standing;
  object["metadata"]["labels"][label + "-reason"] = reason;
  return object;
}

TEST(NodesTest, WhatServeFoundOnTheNodeStandsAboveItsVersions) {
  const auto debian = node("Debian GNU/Linux 12", "6.1.0-18-amd64", "Tesla-T4");
  ASSERT_EQ(chosen(debian).path, "bounce");
  const auto closed = labeled(debian, "p2pdma", "closed", "driver_no_export");
  const Choice off = chosen(labeled(closed, "nvfs", "off", "nvfs_off"));
  EXPECT_EQ(off.path, "nvidia-fs");
  EXPECT_EQ(off.standing, facts::Standing::off);
  EXPECT_EQ(off.against->rule, "nvfs_off");
  EXPECT_NE(off.against->remedy.find("PENSTOCK_NVFS"), std::string::npos) << off.against->remedy;
  EXPECT_EQ(off.refusals[0].rule, "driver_no_export");
  EXPECT_EQ(chosen(labeled(debian, "p2pdma", "usable", "none"), "luks").path, "bounce") << "the drives are encrypted";
}

TEST(NodesTest, TheDirectPathThatStandsBestIsChosen) {
  const auto off = labeled(node("Ubuntu 24.04.1 LTS", "6.8.0-52-generic", ""), "p2pdma", "off", "nvidia_export");
  auto both = labeled(off, "vendor", "usable", "none");
  both["status"]["capacity"]["nvidia.com/gpu"] = "8";
  const Choice choice = chosen(both);
  EXPECT_EQ(choice.path, "nvidia-fs");
  EXPECT_FALSE(choice.against.has_value());
  EXPECT_EQ(choice.refusals[0].rule, "nvidia_export");
}

TEST(NodesTest, WhereNothingMovesBytesThereIsNoPath) {
  auto closed = node("Ubuntu 24.04.1 LTS", "6.8.0-52-generic", "NVIDIA-H100-80GB-HBM3");
  for (const char* path : {"p2pdma", "nvfs", "vendor", "pagecache", "bounce"}) {
    closed = labeled(closed, path, "closed", "settings");
  }
  const Choice choice = chosen(closed);
  EXPECT_EQ(choice.path, "");
  EXPECT_EQ(choice.refusals.size(), 3u);
}

TEST(NodesTest, ANodeWithoutAGpuHasNoPath) {
  EXPECT_EQ(chosen(node("Ubuntu 24.04.1 LTS", "6.8.0-52-generic", "")).path, "");
}

TEST(NodesTest, WhatIsNoListOfNodesIsRefused) {
  for (const char* text : {"", "{", "[]", "{\"items\": 3}", "{\"items\": [1, null, {}]}", "\"Node\""}) {
    EXPECT_THROW(read_nodes(text, "nodes"), Failure) << text;
  }
  const auto odd = read_nodes(
      R"({"kind": "Node", "metadata": [], "status": {"nodeInfo": 3, "capacity": {"nvidia.com/gpu": 0}}})", "nodes");
  EXPECT_FALSE(odd[0].has_gpu);
}

}  // namespace
}  // namespace penstock::tools::k8s
