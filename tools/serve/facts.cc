// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/facts.h"

#include <algorithm>

namespace penstock::tools {
namespace {

OfferedPath offered(const PathReport& report) {
  OfferedPath path{penstock_path_name(report.path), report.usable, penstock_reason_name(report.reason), ""};
  for (const Need& need : report.needs) {
    if (path.remedy.empty() && need.met == core::Tristate::no) path.remedy = need.remedy;
  }
  return path;
}

}  // namespace

const OfferedPath* NodeFacts::path(const std::string& name) const {
  const auto found = std::find_if(paths.begin(), paths.end(), [&](const OfferedPath& one) { return one.path == name; });
  return found == paths.end() ? nullptr : &*found;
}

// With a name for its root, a machine is read, and never probed.
NodeFacts read_facts(const std::string& host) {
  const core::Root root = open_machine_root(host);
  const Machine machine = read_machine(root, host);
  NodeFacts facts;
  for (const PathReport& report : report_paths(machine)) facts.paths.push_back(offered(report));
  facts.gpus = machine.nvidia_gpus().size();
  facts.driver = machine.nvidia;
  facts.nvidia_fs = machine.nvidia_fs;
  facts.nvidia_fs_counts = core::read_nvidia_fs_counts(root);
  facts.iommu = machine.iommu.mode;
  return facts;
}

}  // namespace penstock::tools
