// SPDX-License-Identifier: Apache-2.0

// Evidence from a node's kernel about the direct paths to each of its file systems: the first obstacle, or none found.
// Pure. No path is called direct: only a read that took the path proves it.
#pragma once

#include <string>
#include <vector>

#include "facts/examination.h"

namespace penstock::tools::k8s {

using facts::Standing;
// "closed", "unknown", "off", or for a usable path "open, not proven".
const char* standing_words(Standing standing);

struct PathEvidence {
  std::string path;  // "p2pdma", "nvidia-fs"
  Standing standing = Standing::unknown;
  std::string rule;  // The first obstacle, by the name of `penstock check`; in a dump a rule of lint.
  std::string sentence;
  std::string remedy;
  bool is_once_set = false;  // Only a setting is in the way.
};

struct StorageEvidence {
  std::string mount_point;  // In a dump of kubectl (dump.h): the object, "StorageClass fast".
  std::string type;
  std::vector<PathEvidence> paths;
  std::size_t alike = 0;  // The number of other volumes of a dump with equal evidence.
};

// The RDMA devices that are nearest to a GPU or drive on the bus.
struct AdapterEvidence {
  std::string of;  // "GPU 0000:19:00.0"
  std::vector<std::string> adapters;
  std::string relation;  // "switch", as `penstock check --topology` has it.
};

struct NodeEvidence {
  std::string name;     // The captured root, or the node's name in a cluster.
  std::string machine;  // "Amazon EC2 p5.48xlarge"; "" if unknown.
  std::vector<StorageEvidence> storages;
  std::string counsel{};    // What all of it comes to, as check says it; "" where no machine was looked at.
  facts::Findings facts{};  // Of what paths and adapters need alike; empty where no machine was looked at.
  std::vector<AdapterEvidence> adapters{};
};

// Evidence for file systems on drives and NFS; those in memory or in user space have no direct path.
std::vector<StorageEvidence> evidence_of(const facts::Examination& node);
// The findings of check about nvidia_fs, the IOMMU, and how adapters reach the GPUs' memory (nvidia_peermem).
facts::Findings facts_of(const facts::Examination& node);
std::vector<AdapterEvidence> adapters_of(const facts::Examination& node);

}  // namespace penstock::tools::k8s
