// SPDX-License-Identifier: Apache-2.0

#include "k8s/kernel_needs.h"

#include "facts/machine.h"
#include "facts/needs.h"
#include "facts/operator_versions.h"
#include "penstock/penstock.h"

namespace penstock::tools::k8s {

std::optional<facts::Finding> kernel_stop(int path, const std::string& release) {
  const auto version = facts::version_of(release);
  if (!version) return std::nullopt;
  facts::Machine node;
  node.platform.kernel_release = release;
  node.platform.kernel = {(*version)[0], (*version)[1]};
  node.p2pdma = core::Tristate::yes;  // Its configuration is seen on the node alone.
  facts::Findings needs;
  if (path == PENSTOCK_PATH_DMABUF) needs.push_back(facts::need_dmabuf_kernel(node));
  if (path == PENSTOCK_PATH_P2PDMA) {
    for (const core::Finding& one : core::kernel_findings(node)) needs.push_back(facts::need_of(one));
  }
  const bool is_by_nvidia_fs = path == PENSTOCK_PATH_NVFS || path == PENSTOCK_PATH_VENDOR;
  if (is_by_nvidia_fs) needs.push_back(facts::need_kernel_for_nvidia_fs(node));
  for (const facts::Finding& need : needs) {
    if (need.state == facts::State::fail) return need;
  }
  return std::nullopt;
}

}  // namespace penstock::tools::k8s
