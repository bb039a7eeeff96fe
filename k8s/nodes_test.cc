// SPDX-License-Identifier: Apache-2.0

#include "k8s/nodes.h"

#include <gtest/gtest.h>

#include <string>

#include "k8s/toggles.h"
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
}

nlohmann::json with_label(nlohmann::json object, const char* label, const char* value) {
  object["metadata"]["labels"][label] = value;
  return object;
}

TEST(NodesTest, VirtualMachinesOfCloudsAreKnownByTheirProviderOrLabelsAndOtherMachinesAreNot) {
  const auto plain = node("Ubuntu 24.04.1 LTS", "6.8.0-52-generic", "NVIDIA-H100-80GB-HBM3");
  const auto by = [&](const char* provider, const char* type = "") {
    auto object = with_label(plain, "node.kubernetes.io/instance-type", type);
    object["spec"]["providerID"] = provider;
    return object;
  };
  EXPECT_EQ(chosen(by("aws:///us-east-1a/i-0", "p5.48xlarge")).path, "bounce");
  EXPECT_EQ(chosen(by("ocid1.instance.oc1.iad.a", "VM.GPU.A10.1")).path, "bounce");
  EXPECT_EQ(chosen(by("ocid1.instance.oc1.iad.a", "BM.GPU.H100.8")).path, "p2pdma");
  for (const char* own : {"k3s://one", "kind://docker/kind/one", "baremetalhost:///openshift/one"}) {
    EXPECT_EQ(chosen(by(own)).path, "p2pdma") << own;
  }
  for (const char* label : {"cloud.google.com/gke-nodepool", "kubernetes.azure.com/cluster"}) {
    const Choice choice = chosen(with_label(plain, label, "a"));
    EXPECT_EQ(choice.path, "bounce") << label;
    EXPECT_NE(choice.refusals.at(0).remedy.find("docs/guide/kubernetes-"), std::string::npos);
  }
  const auto hooks =
      with_label(node("Ubuntu 22.04.5 LTS", "5.15.0-1062-nvidia", ""), "eks.amazonaws.com/nodegroup", "a");
  EXPECT_EQ(chosen(with_label(hooks, "k8s.amazonaws.com/accelerator", "nvidia-h100-80gb")).path, "bounce");
}

TEST(NodesTest, NodeFeatureDiscoveryNamesTheSystemBesideItsOwnText) {
  auto dgx = node("DGX OS 6.2", "5.15.0-1063-nvidia", "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(read_nodes(dgx.dump(), "")[0].os, "ubuntu22.04");
  dgx["status"]["nodeInfo"]["osImage"] = "Our Linux 3";
  dgx = with_label(dgx, "feature.node.kubernetes.io/system-os_release.ID", "ubuntu");
  dgx = with_label(dgx, "feature.node.kubernetes.io/system-os_release.VERSION_ID", "22.04");
  EXPECT_EQ(read_nodes(dgx.dump(), "")[0].os, "ubuntu22.04");
  EXPECT_EQ(chosen(dgx).path, "nvidia-fs");
  EXPECT_EQ(read_nodes(node("Amazon Linux 2023.8.20250818", "6.1", "").dump(), "")[0].os, "amzn2023");
  EXPECT_EQ(read_nodes(node("Container-Optimized OS from Google", "6.6", "").dump(), "")[0].os, "cos");
  EXPECT_EQ(read_nodes(node("Oracle Linux Server 8.10", "5.15", "").dump(), "")[0].os, "ol8");
}

TEST(NodesTest, ADriverOfTheNodesOwnNeedsNoImageOfNvidiaFs) {
  const auto rocky = node("Rocky Linux 9.4 (Blue Onyx)", "5.14.0-nvidia", "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(chosen(rocky).path, "bounce");
  EXPECT_EQ(chosen(with_label(rocky, "nvidia.com/gpu.deploy.driver", "pre-installed")).path, "nvidia-fs");
}

std::string toggles(const nlohmann::json& object, const char* storage) {
  const Node one = read_nodes(object.dump(), "nodes").at(0);
  std::string all;
  for (const Toggle& toggle : toggles_of(one, choose(one, storage, "nas:/models"), storage)) {
    EXPECT_NE(toggle.why, "") << toggle.key;
    all += !toggle.on ? "?" : *toggle.on ? "1" : "0";
  }
  return all;
}

TEST(NodesTest, WhatTheOperatorsAreToldFollowsFromAdapterKernelDriverAndStorage) {
  // driver.rdma.enabled, useHostMofed, gds.enabled, the shared device plugin.
  const auto plain = node("Ubuntu 24.04.1 LTS", "6.8.0-52-generic", "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(toggles(plain, "xfs"), "??00") << "nobody told of adapters";
  const auto without = with_label(plain, "feature.node.kubernetes.io/pci-10de.present", "true");
  EXPECT_EQ(toggles(without, "xfs"), "0000");
  EXPECT_EQ(toggles(without, "nfs-rdma"), "0010");
  const auto with = with_label(without, "feature.node.kubernetes.io/pci-15b3.present", "true");
  EXPECT_EQ(toggles(with, "xfs"), "0000") << "DMA-BUF does it";
  EXPECT_EQ(toggles(with_label(with, "nvidia.com/cuda.driver-version.full", "510.47.03"), "xfs"), "1?00");
  EXPECT_EQ(toggles(with, "nfs-rdma"), "1?10");
  EXPECT_EQ(toggles(with_label(with, "network.nvidia.com/operator.mofed.wait", "false"), "nfs-rdma"), "1010");
  EXPECT_EQ(toggles(with_label(with, "nvidia.com/gpu.machine", "DGXH100"), "nfs-rdma"), "1110");
  EXPECT_EQ(toggles(with_label(with, "nvidia.com/gpu.deploy.driver", "pre-installed"), "nfs-rdma"), "0000");
  auto hooks = node("Ubuntu 22.04.5 LTS", "5.15.0-1062-nvidia", "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(toggles(hooks, "xfs"), "??10");
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

TEST(NodesTest, AnIommuThatTranslatesCountsWhereServeSaidNothingOfThePath) {
  const auto plain = node("Ubuntu 24.04.1 LTS", "6.8.0-52-generic", "NVIDIA-H100-80GB-HBM3");
  auto translating = with_label(plain, "feature.node.kubernetes.io/penstock-iommu", "translating");
  EXPECT_EQ(chosen(translating).path, "bounce");
  EXPECT_EQ(chosen(translating).refusals.at(0).rule, "iommu_translates");
  EXPECT_EQ(chosen(labeled(translating, "p2pdma", "off", "nvidia_export")).path, "p2pdma") << "serve's answer has it";
  translating["status"]["nodeInfo"]["architecture"] = "arm64";
  EXPECT_EQ(chosen(translating).path, "p2pdma") << "there it has to";
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
