// SPDX-License-Identifier: Apache-2.0

#include "k8s/nodes.h"

#include <fmt/format.h>

#include <algorithm>

#include "facts/operator_versions.h"
#include "k8s/inputs.h"
#include "tools/common/failure.h"
#include "tools/common/feature_prefix.h"

namespace penstock::tools::k8s {
namespace {

using facts::Standing;

constexpr std::string_view kFeatures = "feature.node.kubernetes.io/";
constexpr const char* kGiveNodes = "give what 'kubectl get nodes -o json' printed";

// Node Feature Discovery names a device by its class and vendor: pci-10de, pci-0302_10de.
bool has_device(const Object& node, std::string_view vendor) {
  const auto& labels = node["metadata.labels"].members;
  return std::any_of(labels.begin(), labels.end(), [&](const Member& label) {
    return label.key.starts_with(kFeatures) && label.key.find("pci-") == kFeatures.size() &&
           label.key.ends_with(fmt::format("{}.present", vendor)) && label.value->text == "true";
  });
}

bool has_feature_labels(const Object& node) {
  const auto& labels = node["metadata.labels"].members;
  return std::any_of(labels.begin(), labels.end(), [](const Member& label) {
    return label.key.starts_with(kFeatures) && !label.key.starts_with(kFeaturePrefix);
  });
}

std::string driver_of(const Object& node) {
  const std::string whole = label_of(node, "nvidia.com/cuda.driver-version.full");
  if (!whole.empty()) return whole;
  const std::string major = label_of(node, "nvidia.com/cuda.driver.major");
  if (major.empty()) return "";
  return fmt::format("{}.{}.{}", major, label_of(node, "nvidia.com/cuda.driver.minor"),
                     label_of(node, "nvidia.com/cuda.driver.rev"));
}

Node::Reported read_reported(const Object& node, const std::string& path) {
  const std::string name = fmt::format("{}-path-{}", kFeaturePrefix, path);
  const std::string word = label_of(node, name + "-standing");
  for (const Standing standing : {Standing::usable, Standing::off, Standing::unknown, Standing::closed}) {
    if (facts::standing_name(standing) == word) return {standing, label_of(node, name + "-reason")};
  }
  return {};
}

Standing standing_of(const Node::Reported& reported) { return reported.standing.value_or(Standing::usable); }

// Returns the better of two standings.
Node::Reported better(const Node::Reported& one, const Node::Reported& other) {
  return !one.standing || standing_of(other) < standing_of(one) ? other : one;
}

}  // namespace

const Node::Reported& Node::reported_of(std::string_view path) const {
  return path == "p2pdma" ? p2pdma : path == "nvidia-fs" ? nvidia_fs : bounce;
}

Node node_of(const Object& object) {
  const Value& info = object["status.nodeInfo"];
  Node node;
  node.name = object.name;
  node.os = os_of_node(object);
  node.kernel = info["kernelVersion"].text;
  node.runtime = runtime_of(info["containerRuntimeVersion"].text);
  node.gpu = label_of(object, "nvidia.com/gpu.product");
  if (node.gpu.empty()) node.gpu = gpu_of_cloud(object);
  node.driver = driver_of(object);
  node.cloud = cloud_of(object);
  node.has_host_driver = label_of(object, "nvidia.com/gpu.deploy.driver") == "pre-installed";
  if (has_feature_labels(object)) node.has_adapter = has_device(object, "15b3");
  node.has_operator_ofed = !label_of(object, "network.nvidia.com/operator.mofed.wait").empty();
  node.is_dgx = has_part(info["osImage"].text, "DGX") || has_part(label_of(object, "nvidia.com/gpu.machine"), "DGX");
  const Member* gpus = object["status.capacity"].member("nvidia.com/gpu");
  const bool has_some = gpus != nullptr && !gpus->value->text.empty() && gpus->value->text != "0";
  const bool is_present = label_of(object, "nvidia.com/gpu.present") == "true";
  node.has_gpu = !node.gpu.empty() || is_present || has_device(object, "10de") || has_some;
  node.has_translating_iommu =
      label_of(object, std::string(kFeaturePrefix) + "-iommu") == "translating" && info["architecture"].text != "arm64";
  node.p2pdma = read_reported(object, "p2pdma");
  node.nvidia_fs = better(read_reported(object, "vendor"), read_reported(object, "nvfs"));
  node.bounce = better(read_reported(object, "bounce"), read_reported(object, "pagecache"));
  return node;
}

std::vector<Node> read_nodes(const std::string& text, const std::string& file) {
  Cluster cluster;
  cluster.manifests.push_back(read_manifest(file, text, kDumpBounds));
  const Manifest& manifest = cluster.manifests.front();
  if (!manifest.is_whole) throw Failure(fault_sentence(manifest) + "; " + kGiveNodes);
  look_through(cluster);
  std::vector<Node> nodes;
  for (const Object* object : cluster.of_kind("Node")) nodes.push_back(node_of(*object));
  if (nodes.empty()) throw Failure(fmt::format("{}: there is no Node in it; {}", file, kGiveNodes));
  return nodes;
}

std::string kind_of(const Node& node) {
  return fmt::format("{}, {}, {}, {}", node.os, node.kernel, node.driver, node.cloud.name);
}

Answers answers_of(const Node& node, const std::string& path, const std::string& storage,
                   const std::string& nfs_server) {
  Answers answers;
  answers.path = path;
  answers.os = node.os;
  answers.kernel = node.kernel;
  answers.driver_version = node.driver;
  answers.runtime = node.runtime;
  answers.storage = storage;
  answers.nfs_server = nfs_server;
  answers.gpu = node.gpu;
  if (node.cloud.is_virtual) answers.cloud = node.cloud.name;
  answers.cloud_page = node.cloud.page;
  answers.has_host_driver = node.has_host_driver;
  answers.strict_iommu = node.has_translating_iommu;
  answers.openshift = node.os.starts_with("rhcos");
  return answers;
}

std::vector<Refusal> refusals_of(const Node& node, const std::string& path, const std::string& storage,
                                 const std::string& nfs_server) {
  const Answers answers = answers_of(node, path, storage, nfs_server);
  if (node.reported_of(path).standing) return refusals_of_storage(answers);
  return refusals_of(answers);
}

std::optional<Refusal> reported_against(const Node& node, const std::string& path) {
  const Node::Reported& reported = node.reported_of(path);
  if (standing_of(reported) == Standing::usable) return std::nullopt;
  std::string sentence =
      fmt::format("'penstock serve' on it finds {} {}", path, facts::standing_name(*reported.standing));
  const char* remedy = "";
  if (const std::optional<std::int32_t> reason = facts::reason_named(reported.reason)) {
    sentence += fmt::format(": {}", penstock_reason_sentence(*reason));
    remedy = penstock_reason_remedy(*reason);
  }
  return Refusal{reported.reason, sentence, *remedy == '\0' ? "see 'penstock check' on the node" : remedy};
}

namespace {

struct Offer {
  const char* path;
  Standing standing;
  std::optional<Refusal> against;  // The first obstacle.
};

Offer offer_of(const Node& node, const char* path, const std::string& storage, const std::string& nfs_server) {
  const std::vector<Refusal> refusals = refusals_of(node, path, storage, nfs_server);
  if (!refusals.empty()) return {path, Standing::closed, refusals.front()};
  return {path, standing_of(node.reported_of(path)), reported_against(node, path)};
}

}  // namespace

Choice choose(const Node& node, const std::string& storage, const std::string& nfs_server) {
  Choice choice;
  if (!node.has_gpu) return choice;
  std::vector<Offer> offers;
  for (const char* path : {"p2pdma", "nvidia-fs", "bounce"}) {
    offers.push_back(offer_of(node, path, storage, nfs_server));
  }
  const Offer* best = offers[1].standing < offers[0].standing ? &offers[1] : &offers[0];
  if (best->standing == Standing::closed) best = &offers[2];
  for (const Offer& offer : offers) {
    if (&offer == best && best->standing != Standing::closed) {
      choice.path = best->path;
      choice.standing = node.reported_of(best->path).standing;
      choice.against = best->against;
      break;
    }
    choice.paths.emplace_back(offer.path);
    choice.refusals.push_back(*offer.against);
  }
  return choice;
}

}  // namespace penstock::tools::k8s
