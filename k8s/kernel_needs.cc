// SPDX-License-Identifier: Apache-2.0

#include "k8s/kernel_needs.h"

#include <string_view>

#include "facts/examination.h"
#include "facts/machine.h"
#include "facts/needs.h"
#include "facts/operator_versions.h"
#include "penstock/penstock.h"

namespace penstock::tools::k8s {
namespace {

// A machine of which only the kernel is known; of a text that is no release, not even that.
facts::Machine machine_with(const std::string& release) {
  facts::Machine node;
  const auto version = facts::version_of(release);
  if (!version) return node;
  node.platform.kernel_release = release;
  node.platform.kernel = {(*version)[0], (*version)[1]};
  return node;
}

}  // namespace

std::optional<facts::Finding> kernel_stop(int path, const std::string& release) {
  facts::Machine node = machine_with(release);
  if (node.platform.kernel_release.empty()) return std::nullopt;
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

facts::Findings nvidia_fs_stops(const std::string& gds, const std::string& driver, const std::string& kernel) {
  facts::Machine node = machine_with(kernel);
  node.nvidia_fs.is_loaded = true;
  node.nvidia_fs.version = gds;
  node.nvidia.is_loaded = !driver.empty();
  node.nvidia.version_text = driver;
  facts::Findings all;
  facts::judge_nvidia_fs(node, all);
  std::erase_if(all, [](const facts::Finding& one) {
    // An nvidia-fs that is older than the kernel is built on the node, so nobody has patched it.
    const bool is_older = one.state == facts::State::unknown && one.code == std::string_view("nvidia_fs_kernel");
    return one.state != facts::State::fail && !is_older;
  });
  return all;
}

}  // namespace penstock::tools::k8s
