// SPDX-License-Identifier: Apache-2.0

// What a dump of kubectl (`kubectl get nodes,pods,clusterpolicies,nvidiadrivers,pv,storageclass,configmaps -A -o yaml`)
// tells of each node's direct paths: the first rule that fails. By the rules of lint and choose, and the state of the
// driver's pods. Pure. A dump shows neither a kernel's symbols nor a bus: nothing in it is ever called open.
#pragma once

#include <string>
#include <vector>

#include "k8s/evidence.h"
#include "k8s/objects.h"

namespace penstock::tools::k8s {

// What no dump tells, and the commands that do.
extern const char* const kDumpLimits;

struct DumpFault {
  std::string object;  // "ConfigMap cufile"
  std::string rule;
  std::string sentence;
  std::string remedy;
};

struct DumpEvidence {
  std::vector<NodeEvidence> nodes;  // One without a GPU has no storages.
  std::vector<DumpFault> faults;    // Of cufile.json in ConfigMaps, for whatever pod mounts it.
};

// Throws a Failure where there is no Node.
DumpEvidence judge_dump(const Cluster& dump, const std::string& file);

}  // namespace penstock::tools::k8s
