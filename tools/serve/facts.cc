// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/facts.h"

#include <algorithm>

#include "facts/examination.h"
#include "tools/common/machine_root.h"

namespace penstock::tools {

const facts::PathOutlook* NodeFacts::path(const std::string& name) const {
  const auto found =
      std::find_if(paths.begin(), paths.end(), [&](auto& one) { return penstock_path_name(one.path) == name; });
  return found == paths.end() ? nullptr : &*found;
}

// A machine whose root is named is read, and never probed.
NodeFacts read_facts(const std::string& host) {
  const core::Root root = open_machine_root(host);
  const facts::Examination examined = facts::examine(facts::read_machine(root, host));
  const facts::Machine& machine = examined.machine;
  NodeFacts facts;
  facts.paths = examined.whole.paths;
  facts.gpus = machine.nvidia_gpus().size();
  facts.driver = machine.nvidia;
  facts.nvidia_fs = machine.nvidia_fs;
  facts.nvidia_fs_stats = machine.nvidia_fs_stats;
  facts.iommu = machine.iommu.mode;
  return facts;
}

}  // namespace penstock::tools
