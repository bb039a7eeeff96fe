// SPDX-License-Identifier: Apache-2.0

// Nodes of a cluster, as `kubectl get nodes -o json` (or yaml) tells of them, and the best path that each may have.
// What `penstock serve` on a node found of a path stands above what the node's versions let one guess. Pure. What a
// node says of itself proves no path: nothing here is called more than possible.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "facts/outlook.h"
#include "k8s/objects.h"
#include "k8s/plan.h"

namespace penstock::tools::k8s {

struct Node {
  std::string name;
  std::string os;       // "ubuntu24.04"; "" where its name is not known here.
  std::string kernel;   // "6.8.0-1051-nvidia"
  std::string runtime;  // "containerd-2.1.4"
  std::string gpu;      // "NVIDIA-H100-80GB-HBM3"; "" where no label tells.
  std::string driver;   // Of NVIDIA's driver that runs there; "" where no label tells.
  std::string cloud;    // "aws", as its provider calls itself; "" for a machine of one's own.
  bool has_gpu = false;
  // What `penstock serve` on it found of a path, by its labels; no standing where it does not run.
  struct Told {
    std::optional<facts::Standing> standing;
    std::string reason;
  };
  Told p2pdma, nvidia_fs, bounce;
  const Told& told_of(std::string_view path) const;  // By the path's name for `penstock-k8s render`.
};

Node node_of(const Object& object);
// Throws a Failure for what is no such list. Values of another type than they should have read as absent.
std::vector<Node> read_nodes(const std::string& text, const std::string& file);

// Why the node cannot have the path, besides what serve told of it; empty where nothing is known against it.
std::vector<Refusal> refusals_of(const Node& node, const std::string& path, const std::string& storage,
                                 const std::string& nfs_server);
// The obstacle that serve found to the path; nothing if the path is usable, or no label tells of it.
std::optional<Refusal> told_against(const Node& node, const std::string& path);

struct Choice {
  std::string path;                         // "" if there is none: the node has no GPU, or moves no bytes.
  std::optional<facts::Standing> standing;  // The path's, if serve told it.
  std::optional<Refusal> against;           // The reason that keeps it off, or leaves it in doubt.
  std::vector<Refusal> refusals;            // The first reason against each better path,
  std::vector<std::string> paths;           // and the names of these paths, in the same order.
};

Choice choose(const Node& node, const std::string& storage, const std::string& nfs_server);

}  // namespace penstock::tools::k8s
