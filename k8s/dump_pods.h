// SPDX-License-Identifier: Apache-2.0

// The pods of NVIDIA's driver in a dump of kubectl: what their state means for the direct paths of their nodes. For
// dump.cc. Pure.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "k8s/evidence.h"
#include "k8s/objects.h"

namespace penstock::tools::k8s {

class DriverPods {
 public:
  explicit DriverPods(const Cluster& dump);

  bool has_any_pod() const { return has_any_pod_; }  // False: the dump does not include pods.
  // The first evidence of the driver's pods against any direct path of a node; without a rule if there is none.
  // The pods that have nvidia-peermem-ctr.
  std::vector<const Object*> with_peermem() const;
  PathEvidence against_driver(const std::string& node) const;
  // The same for GPUDirect Storage that is turned on.
  PathEvidence against_nvidia_fs(const std::string& node) const;

 private:
  std::unordered_map<std::string, std::vector<const Object*>> of_nodes_;
  bool has_any_pod_ = false;
};

}  // namespace penstock::tools::k8s
