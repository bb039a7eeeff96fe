// SPDX-License-Identifier: Apache-2.0

// What a node's own kernel says of the direct paths to each of its file systems: the first thing in their way, or that
// nothing is seen there. Pure. Nothing is called direct: only a read that took the path proves it.
#pragma once

#include <string>
#include <vector>

#include "tools/common/machine.h"
#include "topology/gds_evidence.h"

namespace penstock::tools::k8s {

enum class Standing { closed, unknown, open };  // open: nothing stands in the way as far as is seen.
const char* standing_name(Standing standing);

struct PathEvidence {
  std::string path;  // "p2pdma", "nvidia-fs"
  Standing standing = Standing::unknown;
  std::string rule;  // What stands in the way first: a rule of lint's, or an obstacle of docs/reference/reasons.md.
  std::string sentence;
  std::string remedy;
};

struct StorageEvidence {
  std::string mount_point;  // In a dump of kubectl, of which dump.h tells: the object, "StorageClass fast".
  std::string type;
  std::vector<PathEvidence> paths;
  std::size_t alike = 0;  // Volumes of a dump of which the very same is to be said.
};

struct NodeEvidence {
  std::string name;     // A root, or a node of a cluster.
  std::string machine;  // "Amazon EC2 p5.48xlarge"; "" where it does not tell.
  std::vector<StorageEvidence> storages;
};

// Of file systems of drives and NFS; those of memory and of programs have no direct path.
std::vector<StorageEvidence> judge_node(const Machine& machine, const core::GdsEvidence& evidence);

}  // namespace penstock::tools::k8s
