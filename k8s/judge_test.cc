// SPDX-License-Identifier: Apache-2.0

// Objects judged by the tables: each key of each release, right, misspelt and with a wrong type, and a server's
// additions.
#include "k8s/judge.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "k8s/shape.h"

namespace penstock::tools::k8s {
namespace {

std::string judged(const std::string& text, const std::string& version = "") {
  Cluster cluster;
  cluster.facts.operator_version = version;
  cluster.manifests.push_back(read_manifest("values.yaml", text));
  look_through(cluster);
  Findings findings;
  judge_all(cluster, findings);
  std::string lines;
  for (const Finding& one : findings.in_order()) {
    lines += std::to_string(one.place.line) + " " + one.rule->id + ": " + one.sentence + "\n";
  }
  return lines;
}

struct Kindred {
  std::string_view table;
  const char* kind;
  const char* api_version;
};
const Kindred kKinds[] = {{kGpuOperatorShapes, "ClusterPolicy", "nvidia.com/v1"},
                          {kGpuOperatorShapes, "NVIDIADriver", "nvidia.com/v1alpha1"},
                          {kGpuOperatorShapes, "GPUCluster", "nvidia.com/v1alpha1"},
                          {kNetworkOperatorShapes, "NicClusterPolicy", "mellanox.com/v1alpha1"}};

// A valid value for the key, as JSON; for an object, its required keys.
std::string right(const ShapeKey& key);
std::string required_of(const Shape& shape, std::string_view but) {
  std::string text;
  for (const ShapeKey& key : shape.keys) {
    if (!key.is_required || key.name == but) continue;
    text += (text.empty() ? "\"" : ", \"") + std::string(key.name) + "\": " + right(key);
  }
  return text;
}
std::string right(const ShapeKey& key) {
  if (key.around.ends_with("[]")) return "[]";
  if (key.around.ends_with("{}")) return "{}";
  switch (key.kind) {
    case ShapeKind::boolean: return "true";
    case ShapeKind::int32:
    case ShapeKind::int64:
    case ShapeKind::number:
    case ShapeKind::int_or_text: return "7";
    case ShapeKind::object: return "{" + required_of(*key.shape, "") + "}";
    default: break;
  }
  if (!key.choices.empty()) return "\"" + std::string(key.choices[0]) + "\"";
  return key.pattern != nullptr && key.pattern->name == "binary-size" ? "\"1Gi\"" : "\"0\"";
}

// Visits each object below a shape with the text around its members: "spec": {"driver": {HERE}}.
template <typename Visit>
void each_object(const Shape& shape, const std::string& head, const std::string& tail, int depth, Visit visit) {
  visit(shape, head, tail);
  for (const ShapeKey& key : shape.keys) {
    if (key.shape == nullptr || depth > 8) continue;
    const std::string others = required_of(shape, key.name);
    std::string open = head + others + (others.empty() ? "\"" : ", \"") + std::string(key.name) + "\": ", close;
    for (std::size_t at = key.around.size(); at >= 2; at -= 2) {
      const bool is_list = key.around.substr(at - 2, 2) == "[]";
      open += is_list ? "[" : "{\"any\": ";
      close = (is_list ? "]" : "}") + close;
    }
    each_object(*key.shape, open + "{", "}" + close + tail, depth + 1, visit);
  }
}

// Returns "NAME": VALUE for each key of a shape.
template <typename Value>
std::string members(const Shape& shape, const char* ending, Value value) {
  std::string text;
  for (const ShapeKey& key : shape.keys) {
    text += (text.empty() ? "\"" : ", \"") + std::string(key.name) + ending + "\": " + value(key);
  }
  return text;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The number of mutations that were judged.
std::size_t judge_keys(const Shape& shape, const std::string& head, const std::string& tail,
                       const std::string& release) {
  const std::size_t keys = shape.keys.size();
  const auto with = [&](const std::string& inner) { return judged(head + inner + tail, release); };
  EXPECT_EQ(with(members(shape, "", right)), "") << head;
  const std::string misspelt = with(required_of(shape, "") + (required_of(shape, "").empty() ? "" : ", ") +
                                    members(shape, "Typo", [](const ShapeKey&) { return "1"; }));
  EXPECT_EQ(count_of(misspelt, "Typo'\n"), keys) << misspelt;
  const std::string wrong = with(members(shape, "", [](const ShapeKey& key) {
    return key.kind == ShapeKind::boolean ? "\"true\"" : key.kind == ShapeKind::any ? "{}" : "true";
  }));
  EXPECT_EQ(count_of(wrong, " wrong_type: "), keys) << wrong;
  std::size_t mutations = 2 * keys;
  for (const ShapeKey& key : shape.keys) {
    if (!key.is_required || key.has_default) continue;
    const std::string missing = with(required_of(shape, key.name));
    EXPECT_NE(missing.find(" lacks " + std::string(key.name)), std::string::npos) << missing;
    ++mutations;
  }
  return mutations;
}

TEST(JudgeTest, EachKeyOfEachReleaseIsTakenRightAndRefusedWrong) {
  std::size_t mutations = 0;
  for (const Kindred& one : kKinds) {
    for (const std::string_view version : Shapes::versions(one.table)) {
      const Shapes shapes(one.table, version);
      const Shape* shape = shapes.find(one.kind, one.api_version);
      if (shape == nullptr) continue;  // The kind exists only in a later release.
      const std::string release(one.table == kGpuOperatorShapes ? version : "");
      const std::string head = std::string("{\"apiVersion\": \"") + one.api_version + "\", \"kind\": \"" + one.kind +
                               "\", \"metadata\": {\"name\": \"gpu-cluster\"}, ";
      each_object(*shape, head, "}", 0, [&](const Shape& within, const std::string& before, const std::string& after) {
        mutations += judge_keys(within, before, after, release);
      });
    }
  }
  EXPECT_GE(mutations, 3000u);
}

// Strict-mode verdicts of the API server of Kubernetes 1.36, with the operators' definitions, on objects with random
// mutations: {"release": ..., "taken": ..., "object": ...} a line.
TEST(JudgeTest, ARealServersVerdictsAreOurs) {
  std::size_t cases = 0, taken = 0;
  for (const char* part : {"1", "2"}) {
    std::ifstream file(std::string(PENSTOCK_SOURCE_DIR "/test/fixtures/k8s/verdicts/api-server-1.36-") + part +
                       ".jsonl");
    for (std::string line; std::getline(file, line); ++cases) {
      const auto verdict = nlohmann::json::parse(line);
      Cluster cluster;
      cluster.facts.operator_version = verdict["release"].get<std::string>();
      // Uses the text as sent, so that no number is reformatted.
      const std::size_t object = line.find("\"object\":") + 9;
      cluster.manifests.push_back(read_manifest("a.json", line.substr(object, line.size() - 1 - object)));
      look_through(cluster);
      Findings findings;
      judge_all(cluster, findings);
      const bool is_right = cluster.manifests[0].faults.empty() && findings.count(Severity::error) == 0;
      EXPECT_EQ(is_right, verdict["taken"].get<bool>()) << line;
      if (is_right) ++taken;
    }
  }
  EXPECT_GE(cases, 1000u);
  EXPECT_GE(taken, 300u);
}

TEST(JudgeTest, TheReleaseDecides) {
  const std::string driver =
      "apiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata: {name: a}\n"
      "spec:\n  driverType: gpu\n  hostNetwork: true\n";
  EXPECT_EQ(judged(driver, "v26.3.3"), "");
  EXPECT_EQ(judged(driver, "26.3.1"), "");
  EXPECT_EQ(judged(driver, "v25.10.1"), "6 unknown_key: spec has no key 'hostNetwork'\n");
  EXPECT_NE(judged("apiVersion: nvidia.com/v1alpha1\nkind: GPUCluster\nmetadata: {name: gpu-cluster}\n", "v25.10.1")
                .find("unknown_kind"),
            std::string::npos);
}

TEST(JudgeTest, RulesBeyondTypesAreTheServersToo) {
  const std::string head =
      "apiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata: {name: a}\nspec:\n"
      "  driverType: gpu\n  image: driver\n";
  EXPECT_EQ(judged(head + "  default: true\n  nodeSelector: {}\n"), "");
  EXPECT_EQ(judged(head + "  default: true\n  nodeSelector: {a: b}\n"),
            "8 default_driver_selector: a default NVIDIADriver must not have a nodeSelector\n");
  EXPECT_EQ(judged(head + "  default: false\n  nodeSelector: {a: b}\n  kernelModuleType: Open\n"),
            "9 wrong_value: spec.kernelModuleType must be one of auto, open, proprietary, not 'Open'\n");
  EXPECT_NE(judged("apiVersion: nvidia.com/v1alpha1\nkind: GPUCluster\nmetadata: {name: other}\n"
                   "spec: {draDriver: {}}\n")
                .find("3 gpu_cluster_name"),
            std::string::npos);
}

TEST(JudgeTest, PodsOfKubernetesOwnKindsAreJudgedAndThoseOfOthersAreNot) {
  const std::string job =
      "spec: {template: {spec: {containers: [{name: a, env: [{name: A, value: 1}], newKey: 1}]}}}\n";
  EXPECT_EQ(judged("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n" + job),
            "4 wrong_type: spec.template.spec.containers[0].env[0].value must be text, not a whole number '1'\n"
            "4 unknown_key: spec.template.spec.containers[0] has no key 'newKey'\n");
  EXPECT_EQ(judged("apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n" + job), "");
}

TEST(JudgeTest, AWordThatYamlTakesForABooleanIsShownAsItIsWritten) {
  Cluster cluster;
  cluster.manifests.push_back(read_manifest("values.yaml", "ccManager: {defaultMode: on}\ntoolkit: {enabled: on}\n"));
  look_through(cluster);
  Findings findings;
  judge_all(cluster, findings);
  const std::vector<Finding> list = findings.in_order();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].sentence, "ccManager.defaultMode must be text, not a boolean 'on'");
  EXPECT_EQ(list[0].remedy, "Write it in quotes: \"on\".");
}

TEST(JudgeTest, ValuesOfTheChartAreKnownByNameAndPlace) {
  EXPECT_EQ(judged("gds:\n  enbled: true\ndriver:\n  kernelModuleTyp: open\n  useHostMofed: true\ntoolkit: {}\n"),
            "2 unknown_value: gds has no key 'enbled'\n"
            "4 unknown_value: driver has no key 'kernelModuleTyp'\n"
            "5 host_mofed_place: driver has no key 'useHostMofed'\n");
  EXPECT_EQ(judged("gds:\n  enabled: true\ndriver:\n  nvidiaDriverCRD: {enabled: true}\n  upgradePolicy:\n"
                   "    gpuPodDeletion: {force: true}\nnfd: {nodefeaturerules: true}\n"),
            "");
}

}  // namespace
}  // namespace penstock::tools::k8s
