// SPDX-License-Identifier: Apache-2.0

// Nodes of a cluster, from `kubectl get nodes -o json` (or yaml), and the best path that each may have. Findings of
// `penstock serve` on a node override guesses from the node's versions. Pure. Labels do not prove a path: no path is
// called more than possible here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "facts/outlook.h"
#include "k8s/clouds.h"
#include "k8s/objects.h"
#include "k8s/plan.h"

namespace penstock::tools::k8s {

struct Node {
  std::string name;
  std::string os;       // "ubuntu24.04"; "" for an unknown name.
  std::string kernel;   // "6.8.0-1051-nvidia"
  std::string runtime;  // "containerd-2.1.4"
  std::string gpu;      // "NVIDIA-H100-80GB-HBM3"; "" without a label.
  std::string driver;   // The version of NVIDIA's running driver; "" without a label.
  Cloud cloud = {"", "", false};
  bool has_gpu = false;
  bool has_host_driver = false;     // Its system brings NVIDIA's driver, so the operator installs none.
  std::optional<bool> has_adapter;  // An RDMA adapter of NVIDIA's; nothing where Node Feature Discovery says nothing.
  bool has_operator_ofed = false;   // The network operator installs the adapter's driver.
  bool is_dgx = false;
  bool has_translating_iommu = false;  // As serve found on the node; not of Arm, where direct paths need one that does.
  // The finding of `penstock serve` about a path, from the node's labels; without a standing if it does not run there.
  struct Reported {
    std::optional<facts::Standing> standing;
    std::string reason;
  };
  Reported p2pdma, nvidia_fs, bounce;
  const Reported& reported_of(std::string_view path) const;  // `path` is the name for `penstock-k8s render`.
};

Node node_of(const Object& object);
// Throws a Failure if the text is not such a list. Values of a wrong type count as absent.
std::vector<Node> read_nodes(const std::string& text, const std::string& file);

// System, kernel, driver and cloud: nodes in which these are equal get the same objects.
std::string kind_of(const Node& node);

// What `penstock-k8s render` would be asked for the node.
Answers answers_of(const Node& node, const std::string& path, const std::string& storage,
                   const std::string& nfs_server);
// Why the node cannot have the path, without the findings of serve; empty if no reason is known.
std::vector<Refusal> refusals_of(const Node& node, const std::string& path, const std::string& storage,
                                 const std::string& nfs_server);
// The obstacle that serve found; nothing if the path is usable or has no label.
std::optional<Refusal> reported_against(const Node& node, const std::string& path);

struct Choice {
  std::string path;                         // "" if there is none: the node has no GPU, or moves no bytes.
  std::optional<facts::Standing> standing;  // The path's standing, if serve reported it.
  std::optional<Refusal> against;           // The reason why it is off or doubtful.
  std::vector<Refusal> refusals;            // The first reason against each better path,
  std::vector<std::string> paths;           // and the names of these paths, in the same order.
};

Choice choose(const Node& node, const std::string& storage, const std::string& nfs_server);

}  // namespace penstock::tools::k8s
