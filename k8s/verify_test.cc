// SPDX-License-Identifier: Apache-2.0

// The built `penstock-k8s verify` and its neighbours, from outside.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

class K8sTool : public Tool {
 protected:
  // The standing of a path on a captured machine's file system, and the rule.
  std::string verdict(const char* machine, const char* mount_point, const char* path) {
    const Finished done = run({"verify", "--root", std::string(PENSTOCK_MACHINES) + machine, "--json"});
    const json answer = json::parse(done.out);
    for (const json& storage : answer["nodes"][0]["storages"]) {
      if (storage["mount_point"] != mount_point) continue;
      for (const json& each : storage["paths"]) {
        if (each["path"] == path) return each["standing"].get<std::string>() + " " + each["rule"].get<std::string>();
      }
    }
    return "";
  }
};

TEST_F(K8sTool, VerifySaysOfCapturedNodesWhatStandsInTheWayFirst) {
  EXPECT_EQ(verdict("dgx-ready", "/data/0", "p2pdma"), "off pointer_not_exportable");
  EXPECT_EQ(verdict("dgx-ready", "/data/0", "nvidia-fs"), "closed nvidia_fs_missing");
  EXPECT_EQ(verdict("closed-modules", "/data/0", "p2pdma"), "closed kernel_modules");
  EXPECT_EQ(verdict("dm-crypt", "/data", "p2pdma"), "closed device_mapper");
  EXPECT_EQ(verdict("nfs-rdma", "/models", "p2pdma"), "closed nfs_rdma");
  EXPECT_EQ(verdict("cloud-vm", "/", "p2pdma"), "closed kernel_no_p2pdma");
}

TEST_F(K8sTool, VerifyOpensAPathThatAVariableSwitchesOnUnlessItMayCorruptBytes) {
  setenv("PENSTOCK_NVIDIA_EXPORT", "on", 1);
  EXPECT_EQ(verdict("dgx-ready", "/data/0", "p2pdma"), "open ");
  EXPECT_EQ(verdict("iommu-translating", "/data", "p2pdma"), "unknown iommu_translating");
  EXPECT_EQ(run({"verify", "--root", std::string(PENSTOCK_MACHINES) + "dgx-ready"}).exit_code, 0);
  unsetenv("PENSTOCK_NVIDIA_EXPORT");
}

TEST_F(K8sTool, VerifySaysWhatAllOfItComesTo) {
  const std::string text = run({"verify", "--root", std::string(PENSTOCK_MACHINES) + "laptop"}).out;
  EXPECT_NE(text.find("\n  no direct path can serve here: nothing that is set or installed"), std::string::npos)
      << text;
}

TEST_F(K8sTool, VerifyTellsOfModulesIommuAndTheNearestAdapters) {
  const auto node = [&](const char* machine) {
    const Finished done = run({"verify", "--root", std::string(PENSTOCK_MACHINES) + machine, "--json"});
    return json::parse(done.out)["nodes"][0];
  };
  const auto state = [&](const char* machine, const char* code) {
    const json answer = node(machine);
    for (const json& one : answer["facts"]) {
      if (one["code"] == code) return one["state"].get<std::string>();
    }
    return std::string();
  };
  EXPECT_EQ(state("dgx-h100", "nvidia_fs"), "pass");
  EXPECT_EQ(state("iommu-translating", "iommu"), "fail");
  EXPECT_EQ(state("dgx-h100", "gpu_memory_registration"), "not_applicable") << "no adapter";
  EXPECT_EQ(state("roce-faults", "gpu_memory_registration"), "pass");
  const json near = node("roce-faults")["adapters"];
  ASSERT_EQ(near.size(), 5u) << near;
  EXPECT_EQ(near[0], (json{{"of", "drive 0000:03:00.0"}, {"adapters", {"mlx5_0", "mlx5_1"}}, {"relation", "node"}}));
  EXPECT_EQ(node("dgx-h100")["adapters"], json::array());
  const std::string text = run({"verify", "--root", std::string(PENSTOCK_MACHINES) + "roce-faults"}).out;
  EXPECT_NE(text.find("GPU 0000:19:00.0: nearest is mlx5_0, mlx5_1 (switch)"), std::string::npos) << text;
}

TEST_F(K8sTool, VerifyExitsWithOneWhereNoPathIsOpen) {
  EXPECT_EQ(run({"verify", "--root", std::string(PENSTOCK_MACHINES) + "cloud-vm"}).exit_code, 1);
  EXPECT_EQ(run({"verify", "--root", std::string(PENSTOCK_MACHINES) + "dgx-ready"}).exit_code, 0) << "it is off";
  EXPECT_EQ(run({"verify", "--root", std::string(PENSTOCK_MACHINES) + "iommu-translating"}).exit_code, 1);
  EXPECT_EQ(run({"verify", "--root", "nowhere"}).exit_code, 2);
}

TEST_F(K8sTool, VerifyOfADumpClosesPathsAndOpensNone) {
  const std::string node =
      "apiVersion: v1\nkind: Node\nmetadata: {name: one, labels: {nvidia.com/gpu.product: NVIDIA-L40S}}\n"
      "status: {nodeInfo: {osImage: Ubuntu 24.04.1 LTS, kernelVersion: ";
  std::ofstream(path("new.yaml")) << node << "6.8.0-51-generic}}\n";
  std::ofstream(path("old.yaml")) << node << "5.15.0-51-generic}}\n---\napiVersion: v1\nkind: PersistentVolume\n"
                                  << "metadata: {name: nas}\nspec: {nfs: {server: nas, path: /m}}\n";
  std::ofstream(path("broken.yaml")) << "a: [\n";
  const Finished done = run({"verify", "--dump", "new.yaml", "--json"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  const json answer = json::parse(done.out);
  EXPECT_EQ(answer["nodes"][0]["node"], "one");
  EXPECT_EQ(answer["nodes"][0]["storages"][0]["paths"][0]["standing"], "unknown");
  EXPECT_NE(answer["limits"].get<std::string>().find("--read FILE"), std::string::npos);
  EXPECT_EQ(run({"verify", "--dump", "old.yaml"}).exit_code, 1);
  EXPECT_EQ(run({"verify", "--dump", "broken.yaml"}).exit_code, 2);
  EXPECT_EQ(run({"verify", "--dump", "new.yaml", "--root", "/"}).exit_code, 2);
}

TEST_F(K8sTool, AReadThatTookAnotherWayProvesNothing) {
  make("data", 8192);
  const Finished done = run({"verify", "--read", "data", "--json"});
  EXPECT_EQ(done.exit_code, 1) << done.err;
  EXPECT_EQ(json::parse(done.out)["proven"], false);
  make("short", 10);
  EXPECT_NE(run({"verify", "--read", "short"}).err.find("less than 4096 bytes"), std::string::npos);
}

TEST_F(K8sTool, ChooseAndExplainLogReadStandardInputAndFiles) {
  std::ofstream(path("nodes.json")) << R"({"kind": "Node", "metadata": {"name": "one"}})";
  std::ofstream(path("log")) << "NVMe Driver not registered with nvidia-fs!!!\n";
  EXPECT_EQ(run({"choose", "--nodes", "nodes.json"}).exit_code, 1) << "it has no GPU";
  EXPECT_EQ(run({"choose", "--nodes", "log"}).exit_code, 1);
  const Finished done = run({"explain-log", "log", "--json"});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_EQ(json::parse(done.out)["findings"][0]["cause"], "nvme_without_hooks");
  EXPECT_EQ(run({"explain-log", "nodes.json"}).exit_code, 1);
}

TEST_F(K8sTool, ChooseSaysWhatMakesTheObjectsForEachKindOfNode) {
  const auto node = [](const std::string& name, const std::string& kernel) {
    return json{{"kind", "Node"},
                {"metadata", {{"name", name}, {"labels", {{"nvidia.com/gpu.present", "true"}}}}},
                {"status", {{"nodeInfo", {{"osImage", "Ubuntu 24.04.2 LTS"}, {"kernelVersion", kernel}}}}}};
  };
  const json items = {node("a", "6.8.0-1051-nvidia"),
                      node("b", "6.8.0-1051-nvidia"),
                      node("c", "5.15.0-1"),
                      node("d;reboot", "6.8.0-51-generic"),
                      {{"kind", "Node"}, {"metadata", {{"name", "cpu"}}}}};
  std::ofstream(path("nodes.json")) << json{{"kind", "List"}, {"items", items}};
  const std::string out = run({"choose", "--nodes", "nodes.json", "--storage", "ext4"}).out;
  for (const auto& [name, is_said] : std::map<std::string, bool>{{"a", true}, {"b", false}, {"c", true}}) {
    EXPECT_EQ(out.find("  objects: kubectl get node " + name + " -o json | ") != out.npos, is_said) << name << out;
  }
  const json told = json::parse(run({"choose", "--nodes", "nodes.json", "--storage", "ext4", "--json"}).out)["nodes"];
  int kinds = 0;
  for (const json& one : told) {
    const std::string name = one["node"], command = one["render"], tail = " --storage ext4 --nodes -";
    EXPECT_EQ(command.empty(), name == "cpu" || name == "d;reboot") << command;
    if (command.empty()) continue;
    EXPECT_TRUE(command.ends_with("render --path " + one["path"].get<std::string>() + tail)) << command;
    for (const json& item : items) {
      if (item["metadata"]["name"] == name) std::ofstream(path("node.json")) << item;
    }
    const Finished done = run({"render", "--path", one["path"], "--storage", "ext4", "--nodes", "node.json"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    ++kinds;
  }
  EXPECT_EQ(kinds, 3);
}

TEST_F(K8sTool, RenderWritesFilesThatItDoesNotReplace) {
  const std::vector<std::string> words = {"render", "--path", "bounce", "--out", "manifests"};
  EXPECT_EQ(run(words).exit_code, 0);
  const Finished again = run(words);
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find("--overwrite replaces it"), std::string::npos) << again.err;
  EXPECT_EQ(run({"render", "--path", "bounce", "--storage", "nfs"}).exit_code, 2);
}

// kubectl apply -f FOLDER reads only the files of that folder, and fails if one of them is not an object.
TEST_F(K8sTool, KubectlsFolderHasObjectsAlone) {
  const std::vector<std::vector<std::string>> all = {
      {"--path", "p2pdma", "--os", "ubuntu24.04", "--storage", "ext4"},
      {"--path", "nvidia-fs", "--os", "ubuntu24.04", "--kernel", "6.8.0-1051-nvidia"},
      {"--path", "bounce"}};
  int number = 0;
  for (std::vector<std::string> words : all) {
    const std::string folder = "manifests" + std::to_string(++number);
    words.insert(words.begin(), {"render"});
    words.insert(words.end(), {"--out", folder});
    EXPECT_EQ(run(words).exit_code, 0);
    for (const auto& entry : fs::directory_iterator(path(folder))) {
      if (entry.is_directory()) continue;
      const std::string text = text_of(entry.path());
      EXPECT_NE(text.find("\nkind: "), std::string::npos) << entry.path();
      EXPECT_NE(text.find("\napiVersion: "), std::string::npos) << entry.path();
    }
    EXPECT_EQ(fs::exists(path(folder + "/helm/gpu-operator-values.yaml")), number != 3) << folder;
    EXPECT_EQ(run({"lint", folder}).exit_code, 0);
    EXPECT_EQ(run({"lint", folder, "--strict"}).exit_code, 1) << "NODE and localhost/ are still in it";
  }
}

}  // namespace
}  // namespace penstock::tools
