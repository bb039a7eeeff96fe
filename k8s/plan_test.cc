// SPDX-License-Identifier: Apache-2.0

#include "k8s/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "k8s/rules.h"
#include "k8s/yaml_text.h"

namespace penstock::tools::k8s {
namespace {

using Names = std::vector<std::string>;

Names refused(const Answers& answers) {
  Names rules;
  const Deployment deployment = plan_deployment(answers);
  for (const Refusal& each : deployment.refusals) {
    rules.push_back(each.rule);
    EXPECT_NE(find_rule(each.rule), nullptr) << each.rule << " is no rule of lint's";
    EXPECT_NE(each.sentence, "");
    EXPECT_NE(each.remedy, "");
  }
  EXPECT_EQ(deployment.objects.empty(), !rules.empty()) << "what is refused has no objects";
  return rules;
}

Names names(const Answers& answers) {
  Names all;
  for (const Rendered& each : plan_deployment(answers).objects) all.push_back(each.name);
  return all;
}

nlohmann::ordered_json object(const Answers& answers, const std::string& name) {
  for (const Rendered& each : plan_deployment(answers).objects) {
    if (each.name == name) return each.object;
  }
  ADD_FAILURE() << "there is no " << name;
  return {};
}

Answers nvidia_fs() {
  return {.path = "nvidia-fs", .os = "ubuntu24.04", .kernel = "6.8.0-1051-nvidia", .storage = "ext4"};
}
Answers p2pdma() { return {.path = "p2pdma", .os = "ubuntu24.04"}; }

TEST(PlanTest, BounceNeedsNoOperatorAndWorksEverywhere) {
  const Names expected = {"namespace", "storage-class", "volume",         "claim",          "cufile-json",
                          "pod",       "job",           "node-namespace", "node-daemonset", "node-service-account"};
  for (const char* storage : {"xfs", "ext4", "lvm", "luks"}) {
    EXPECT_EQ(names({.path = "bounce", .os = "rhel8", .storage = storage, .strict_iommu = true}), expected) << storage;
  }
  EXPECT_EQ(names({.path = "bounce", .storage = "nfs", .nfs_server = "nas:/models"}), expected);
}

TEST(PlanTest, WhatCannotWorkIsRefusedByItsRule) {
  struct Case {
    Answers answers;
    const char* rule;
  };
  const auto changed = [](Answers answers, auto change) {
    change(answers);
    return answers;
  };
  const Case cases[] = {
      {changed(nvidia_fs(), [](Answers& a) { a.os = "rhel9"; }), "gds_os"},
      {changed(nvidia_fs(), [](Answers& a) { a.os = ""; }), "gds_os"},
      {changed(nvidia_fs(), [](Answers& a) { a.kernel = ""; }), "gds_local_nvme"},
      {changed(nvidia_fs(), [](Answers& a) { a.storage = "lvm"; }), "storage_mapper"},
      {changed(nvidia_fs(), [](Answers& a) { a.strict_iommu = true; }), "iommu_translates"},
      {changed(nvidia_fs(), [](Answers& a) { a.storage = "nfs", a.nfs_server = "nas:/models"; }), "nfs_by_tcp"},
      {changed(nvidia_fs(),
               [](Answers& a) { a.storage = "nfs-rdma", a.nfs_server = "nas:/models", a.nvme_in_use = true; }),
       "nfsrdma_with_nvme"},
      {changed(nvidia_fs(), [](Answers& a) { a.kernel = "4.10.0-nvidia"; }), "gds_versions"},
      {changed(nvidia_fs(), [](Answers& a) { a.kernel = "6.12.117-nvidia"; }), "gds_versions"},
      {changed(nvidia_fs(), [](Answers& a) { a.operator_version = "v26.3.3", a.driver_version = "595.91.07"; }),
       "gds_versions"},
      {changed(p2pdma(), [](Answers& a) { a.os = "ubuntu22.04"; }), "p2pdma_needs"},
      {changed(p2pdma(), [](Answers& a) { a.os = ""; }), "p2pdma_needs"},
      {changed(p2pdma(), [](Answers& a) { a.os = "cos"; }), "p2pdma_needs"},
      {changed(p2pdma(), [](Answers& a) { a.kernel = "new"; }), "p2pdma_needs"},
      {changed(p2pdma(), [](Answers& a) { a.kernel = "6.16.3"; }), "p2pdma_needs"},
      {changed(p2pdma(), [](Answers& a) { a.driver_version = "latest"; }), "p2pdma_needs"},
      {changed(p2pdma(), [](Answers& a) { a.driver_version = "550.90.07"; }), "p2pdma_needs"},
      {changed(p2pdma(), [](Answers& a) { a.kernel = "6.17.2", a.operator_version = "v26.3.3"; }), "p2pdma_needs"},
      {changed(p2pdma(), [](Answers& a) { a.storage = "luks"; }), "storage_encrypted"},
      {changed(p2pdma(), [](Answers& a) { a.storage = "nfs-rdma", a.nfs_server = "nas:/models"; }), "p2pdma_needs"},
  };
  for (const Case& each : cases) EXPECT_EQ(refused(each.answers), Names{each.rule}) << each.answers.os;
  EXPECT_EQ(refused(nvidia_fs()), Names{});
  EXPECT_EQ(refused(p2pdma()), Names{});
  EXPECT_EQ(refused(changed(p2pdma(), [](Answers& a) { a.kernel = "6.17.2"; })), Names{});
  EXPECT_EQ(refused(changed(p2pdma(), [](Answers& a) { a.os = "ubuntu22.04", a.kernel = "6.8.0-52-generic"; })),
            Names{});
}

TEST(PlanTest, AKernelThatNobodyKnowsIsNotCalledAnOldOne) {
  for (const auto& [os, kernel] : {std::pair{"cos", ""}, {"ubuntu24.04", "new"}}) {
    const Deployment refused = plan_deployment({.path = "p2pdma", .os = os, .kernel = kernel});
    ASSERT_EQ(refused.refusals.size(), 1u) << os;
    EXPECT_NE(refused.refusals[0].sentence.find("needs to know the nodes' kernel"), std::string::npos);
    EXPECT_EQ(refused.refusals[0].sentence.find("0.0"), std::string::npos) << refused.refusals[0].sentence;
  }
}

TEST(PlanTest, AnImageWhoseCudaTheDriverCannotRunIsNoted) {
  const auto notes = [](const char* image, const char* driver) {
    const auto all = plan_deployment({.driver_version = driver, .image = image}).notes;
    return std::count_if(all.begin(), all.end(), [](const auto& note) { return note.starts_with("The image "); });
  };
  for (const char* image : {"nvidia/cuda:13.0.1-runtime", "a/cuda-samples:x-cuda13.1", "a:2.9-cu130", "cuda_13"}) {
    EXPECT_EQ(notes(image, "575.51.03"), 1) << image;
    EXPECT_EQ(notes(image, "580.65.06"), 0) << image;
  }
  for (const char* image : {"nvidia/cuda:12.8.0", "a:cu1300", "a/cuda:", "a:cu13", "a:cuda-latest", "cu"}) {
    EXPECT_EQ(notes(image, "575.51.03"), 0) << image;
  }
  EXPECT_EQ(notes("nvidia/cuda:13.0.1", "latest"), 0);
}

TEST(PlanTest, OfADriverOfTheNodesOwnTheOperatorIsToldToInstallNone) {
  for (Answers answers : {nvidia_fs(), p2pdma()}) {
    answers.has_host_driver = true;
    EXPECT_EQ(object(answers, "gpu-operator-values"), (nlohmann::ordered_json{{"driver", {{"enabled", false}}}}));
    answers.as = "clusterpolicy";
    const auto policy = object(answers, "cluster-policy")["spec"];
    EXPECT_EQ(policy["driver"], (nlohmann::ordered_json{{"enabled", false}}));
    EXPECT_FALSE(policy.contains("gds"));
    for (const std::string& name : names(answers)) EXPECT_NE(name, "driver-parameters");
    const auto notes = plan_deployment(answers).notes;
    EXPECT_TRUE(std::any_of(notes.begin(), notes.end(),
                            [](const auto& note) { return note.starts_with("The driver is the nodes' own"); }));
  }
}

TEST(PlanTest, TheOperatorIsToldInTheFormThatItTakes) {
  Answers answers = nvidia_fs();
  EXPECT_EQ(object(answers, "gpu-operator-values")["gds"], (nlohmann::ordered_json{{"enabled", true}}));
  answers.as = "clusterpolicy";
  const auto policy = object(answers, "cluster-policy")["spec"];
  for (const char* key : {"operator", "daemonsets", "driver", "toolkit", "devicePlugin", "dcgm", "dcgmExporter", "gfd",
                          "nodeStatusExporter"}) {
    EXPECT_TRUE(policy.contains(key)) << key;
  }
  EXPECT_EQ(policy["gds"]["version"], "2.29.4");
  answers.as = "nvidiadriver";
  answers.operator_version = "v26.3.3";
  const auto driver = object(answers, "nvidia-driver")["spec"];
  EXPECT_EQ(driver["kernelModuleType"], "open");
  EXPECT_EQ(driver["version"], "580.126.20");
  EXPECT_EQ(driver["gds"]["version"], "2.27.3");
  EXPECT_FALSE(driver.contains("default")) << "that release has no such key";
}

TEST(PlanTest, P2pdmaHasTheDriversParametersAndNoNvidiaFs) {
  const Answers answers = p2pdma();
  EXPECT_EQ(object(answers, "driver-parameters")["data"]["nvidia.conf"],
            "NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"\n");
  const auto values = object(answers, "gpu-operator-values");
  EXPECT_EQ(values["driver"]["kernelModuleConfig"]["name"], "penstock-driver-parameters");
  EXPECT_FALSE(values.contains("gds"));
}

TEST(PlanTest, EachPathsPodsHaveTheSwitchWithoutWhichTheyWouldFail) {
  const auto has = [](const Answers& answers, const char* name, const char* variable) {
    const auto object_ = object(answers, name);
    const auto& spec = name == std::string("job") ? object_["spec"]["template"]["spec"] : object_["spec"];
    const auto& container = spec.contains("initContainers") ? spec["initContainers"][0] : spec["containers"][0];
    for (const auto& one : container["env"]) {
      if (one["name"] == variable) return one["value"] != "";
    }
    return false;
  };
  const auto required = [](const Answers& answers) {
    const auto spec = object(answers, "job")["spec"]["template"]["spec"];
    for (const char* kind : {"initContainers", "containers"}) EXPECT_EQ(spec[kind].size(), 1u) << kind;
    const auto& words = spec["initContainers"][0]["args"];
    const auto at = std::find(words.begin(), words.end(), "--require");
    return std::next(at)->get<std::string>();
  };
  Answers with_library = nvidia_fs(), remote = nvidia_fs();
  with_library.has_libcufile = true;
  remote.storage = "nfs-rdma", remote.nfs_server = "nas:/models";
  EXPECT_EQ(required(nvidia_fs()), "nvfs") << "the image has no library of NVIDIA's";
  EXPECT_EQ(required(with_library), "vendor");
  EXPECT_EQ(required(remote), "vendor") << "the client takes local file systems alone";
  EXPECT_TRUE(has(nvidia_fs(), "job", "PENSTOCK_NVFS"));
  EXPECT_FALSE(has(with_library, "job", "PENSTOCK_NVFS"));
  for (const char* name : {"job", "pod"}) {
    EXPECT_TRUE(has(p2pdma(), name, "PENSTOCK_NVIDIA_EXPORT")) << name;
    EXPECT_FALSE(has(p2pdma(), name, "NVIDIA_GDS")) << name;
    EXPECT_TRUE(has(nvidia_fs(), name, "NVIDIA_GDS")) << name;
    EXPECT_FALSE(has(nvidia_fs(), name, "PENSTOCK_NVIDIA_EXPORT")) << name;
    EXPECT_FALSE(has({}, name, "PENSTOCK_NVIDIA_EXPORT")) << name;
  }
}

TEST(PlanTest, OpenShiftHasItsKernelArgumentsAndItsOwnSeccompProfile) {
  const Answers answers{.path = "nvidia-fs", .os = "rhcos", .kernel = "5.14.0-nvidia", .openshift = true};
  const Names expected = {"cluster-policy", "machine-config",      "namespace", "storage-class", "volume",
                          "claim",          "cufile-json",         "pod",       "job",           "node-namespace",
                          "node-daemonset", "node-service-account"};
  EXPECT_EQ(names(answers), expected);
  const auto profile = object(answers, "pod")["spec"]["securityContext"]["seccompProfile"];
  EXPECT_EQ(profile["localhostProfile"], "profiles/penstock.json");
}

TEST(YamlTextTest, WhatAReaderWouldTakeForSomethingElseStandsInQuotes) {
  EXPECT_EQ(yaml_text({{"a", "on"}, {"b", "1.20"}, {"c", "x: y"}, {"d", true}, {"e", 2}, {"f", "/plain"}, {"g", ""}}),
            "a: \"on\"\nb: \"1.20\"\nc: \"x: y\"\nd: true\ne: 2\nf: /plain\ng: \"\"\n");
  EXPECT_EQ(yaml_text({{"m", nlohmann::ordered_json::object()}, {"l", nlohmann::ordered_json::array()}}),
            "m: {}\nl: []\n");
  EXPECT_EQ(yaml_text({{"t", "one\ntwo\n"}}), "t: |\n  one\n  two\n");
  EXPECT_EQ(yaml_text({{"t", "one\ntwo"}, {"u", "one\n"}}), "t: \"one\\ntwo\"\nu: \"one\\n\"\n");
}

}  // namespace
}  // namespace penstock::tools::k8s
