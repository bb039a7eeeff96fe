// SPDX-License-Identifier: Apache-2.0

// What a node's own kernel says of the direct paths to each of its file systems: the first thing in their way, or that
// nothing is seen there. Pure. Nothing is called direct: only a read that took the path proves it.
#pragma once

#include <string>
#include <vector>

#include "facts/examination.h"

namespace penstock::tools::k8s {

using facts::Standing;
// "closed", "unknown", "off", and of what is usable "open, not proven".
const char* standing_words(Standing standing);

struct PathEvidence {
  std::string path;  // "p2pdma", "nvidia-fs"
  Standing standing = Standing::unknown;
  std::string rule;  // What stands in the way first: as `penstock check` calls it; in a dump a rule of lint's.
  std::string sentence;
  std::string remedy;
  bool is_once_set = false;  // A setting is all that is in the way.
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
std::vector<StorageEvidence> evidence_of(const facts::Examination& node);

}  // namespace penstock::tools::k8s
