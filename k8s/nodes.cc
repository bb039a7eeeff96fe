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

constexpr const char* kGiveNodes = "give what 'kubectl get nodes -o json' printed";

std::string label_of(const Object& node, std::string_view name) {
  const Member* label = node["metadata.labels"].member(name);
  return label == nullptr ? "" : label->value->text;
}

// Discovery names a device by its class and its maker: pci-10de, pci-0302_10de.
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

Node::Told told_of(const Object& node, const std::string& path) {
  const std::string name = std::string(kFeaturePrefix) + "-path-" + path;
  return {label_of(node, name + "-standing"), label_of(node, name + "-reason")};
}

// Of two paths by nvidia-fs the one that stands better.
const Node::Told& better(const Node::Told& one, const Node::Told& other) {
  constexpr std::string_view kOrder[] = {"usable", "off", "unknown", "closed"};
  const auto rank = [&](const Node::Told& told) {
    return std::find(std::begin(kOrder), std::end(kOrder), told.standing) - std::begin(kOrder);
  };
  return rank(other) < rank(one) ? other : one;
}

bool gpu_can(const std::string& gpu) {
  return std::any_of(facts::kP2pdmaGpus.begin(), facts::kP2pdmaGpus.end(), [&](const std::string& name) {
    const std::size_t at = gpu.find(name);
    const std::size_t end = at + name.size();
    // "L4" is none in "L40S", and "A40" none in "A400".
    return at != std::string::npos && (end == gpu.size() || std::isalnum(static_cast<unsigned char>(gpu[end])) == 0);
  });
}

}  // namespace

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
  node.p2pdma = told_of(object, "p2pdma");
  node.nvidia_fs = better(told_of(object, "vendor"), told_of(object, "nvfs"));
  return node;
}

std::vector<Node> read_nodes(const std::string& text, const std::string& file) {
  World world;
  world.manifests.push_back(read_manifest(file, text, kDumpBounds));
  const Manifest& manifest = world.manifests.front();
  if (!manifest.is_whole) throw Failure(fault_sentence(manifest) + "; " + kGiveNodes);
  look_through(world);
  std::vector<Node> nodes;
  for (const Object* object : world.of_kind("Node")) nodes.push_back(node_of(*object));
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
                        "a machine of one's own; 'penstock check' on the node tells more"});
  }
  const Node::Told told = path == "p2pdma" ? node.p2pdma : path == "nvidia-fs" ? node.nvidia_fs : Node::Told{};
  if (told.standing == "closed") {
    refusals.insert(refusals.begin(), {told.reason, fmt::format("'penstock serve' on it finds {} closed", path),
                                       "see 'penstock check' on the node"});
  }
  return refusals;
}

Choice choose(const Node& node, const std::string& storage, const std::string& nfs_server) {
  if (!node.has_gpu) return {};
  Choice choice;
  for (const char* path : {"p2pdma", "nvidia-fs", "bounce"}) {
    const std::vector<Refusal> refusals = refusals_of(node, path, storage, nfs_server);
    if (refusals.empty()) {
      choice.path = path;
      const Node::Told& told = choice.path == "p2pdma" ? node.p2pdma : node.nvidia_fs;
      if (choice.path != "bounce" && told.standing == "off") choice.off_by = told.reason;
      return choice;
    }
    choice.paths.emplace_back(path);
    choice.refusals.push_back(refusals[0]);
  }
  return choice;
}

}  // namespace penstock::tools::k8s
