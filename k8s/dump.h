// SPDX-License-Identifier: Apache-2.0

// Judges each node's direct paths from a dump of kubectl (`kubectl get
// nodes,pods,clusterpolicies,nvidiadrivers,pv,storageclass,configmaps -A -o yaml`): finds the first rule that fails,
// with the rules of lint and choose, and the state of the driver's pods. Pure. A dump shows neither a kernel's symbols
// nor a bus, so no path is ever called open.
#pragma once

#include <string>
#include <vector>

#include "k8s/evidence.h"
#include "k8s/objects.h"

namespace penstock::tools::k8s {

// The facts that no dump contains, and the commands that show them.
extern const char* const kDumpLimits;

struct DumpFault {
  std::string object;  // "ConfigMap cufile"
  std::string rule;
  std::string sentence;
  std::string remedy;
};

struct DumpEvidence {
  std::vector<NodeEvidence> nodes;  // Nodes without a GPU have no storages.
  std::vector<DumpFault> faults;    // Faults of cufile.json in ConfigMaps, for any pod that mounts it.
};

// Throws a Failure if there is no Node.
DumpEvidence judge_dump(const Cluster& dump, const std::string& file);

}  // namespace penstock::tools::k8s
