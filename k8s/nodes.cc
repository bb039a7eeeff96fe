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

constexpr const char* kGiveNodes = "give what 'kubectl get nodes -o json' printed";

std::string label_of(const Object& node, std::string_view name) {
  const Member* label = node["metadata.labels"].member(name);
  return label == nullptr ? "" : label->value->text;
}

// Node Feature Discovery names a device by its class and vendor: pci-10de, pci-0302_10de.
bool has_gpu_label(const Object& node) {
  const auto& labels = node["metadata.labels"].members;
  return std::any_of(labels.begin(), labels.end(), [](const Member& label) {
    const bool tells =
        label.key == "nvidia.com/gpu.present" ||
        (label.key.starts_with("feature.node.kubernetes.io/pci-") && has_part(label.key, "10de.present"));
    return tells && label.value->text == "true";
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

bool gpu_can(const std::string& gpu) {
  return std::any_of(facts::kP2pdmaGpus.begin(), facts::kP2pdmaGpus.end(), [&](const std::string& name) {
    const std::size_t at = gpu.find(name);
    const std::size_t end = at + name.size();
    // "L4" must not match "L40S", nor "A40" "A400".
    return at != std::string::npos && (end == gpu.size() || std::isalnum(static_cast<unsigned char>(gpu[end])) == 0);
  });
}

}  // namespace

const Node::Reported& Node::reported_of(std::string_view path) const {
  return path == "p2pdma" ? p2pdma : path == "nvidia-fs" ? nvidia_fs : bounce;
}

Node node_of(const Object& object) {
  const Value& info = object["status.nodeInfo"];
  Node node;
  node.name = object.name;
  node.os = os_of_image(info["osImage"].text);
  node.kernel = info["kernelVersion"].text;
  node.runtime = runtime_of(info["containerRuntimeVersion"].text);
  node.gpu = label_of(object, "nvidia.com/gpu.product");
  node.driver = driver_of(object);
  const std::string& provider = object["spec.providerID"].text;
  if (provider.find("://") != std::string::npos) node.cloud = provider.substr(0, provider.find("://"));
  const Member* gpus = object["status.capacity"].member("nvidia.com/gpu");
  const bool has_some = gpus != nullptr && !gpus->value->text.empty() && gpus->value->text != "0";
  node.has_gpu = !node.gpu.empty() || has_gpu_label(object) || has_some;
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

std::vector<Refusal> refusals_of(const Node& node, const std::string& path, const std::string& storage,
                                 const std::string& nfs_server) {
  Answers answers;
  answers.path = path;
  answers.os = node.os;
  answers.kernel = node.kernel;
  answers.driver_version = node.driver;
  answers.runtime = node.runtime;
  answers.storage = storage;
  answers.nfs_server = nfs_server;
  answers.openshift = node.os.starts_with("rhcos");
  if (node.reported_of(path).standing) return refusals_of_storage(answers);
  std::vector<Refusal> refusals = refusals_of(answers);
  if (path == "p2pdma" && !node.gpu.empty() && !gpu_can(node.gpu)) {
    refusals.push_back({"p2pdma_needs", fmt::format("{} is none of the GPUs that NVIDIA names for it", node.gpu),
                        "take another node, or another path"});
  }
  if (path == "p2pdma" && !node.cloud.empty()) {
    refusals.push_back({"p2pdma_needs",
                        fmt::format("{} shows its drives to virtual machines: none is known "
                                    "where a drive reaches the GPU's memory",
                                    node.cloud),
                        "use a physical machine; 'penstock check' on the node tells more"});
  }
  return refusals;
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
