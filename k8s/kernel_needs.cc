// SPDX-License-Identifier: Apache-2.0

#include "k8s/kernel_needs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "facts/examination.h"
#include "facts/machine.h"
#include "facts/matrix.h"
#include "facts/needs.h"
#include "facts/operator_versions.h"
#include "penstock/penstock.h"
#include "settings/words.h"

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

bool is_digit(char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; }

// CUDA's first number: of "cuda" and two digits, with or without a sign between them, or of "cu" and three; 0 if an
// image's name has neither.
int cuda_of_image(std::string_view image) {
  for (std::size_t at = image.find("cu"); at != std::string_view::npos; at = image.find("cu", at + 1)) {
    std::string_view rest = image.substr(at + 2);
    const bool is_word = rest.starts_with("da");
    if (is_word) rest.remove_prefix(2);
    if (is_word && !rest.empty() && std::string_view(":-_").find(rest[0]) != std::string_view::npos) {
      rest.remove_prefix(1);
    }
    const auto digits = std::find_if_not(rest.begin(), rest.end(), is_digit) - rest.begin();
    if (digits == (is_word ? 2 : 3)) return 10 * (rest[0] - '0') + rest[1] - '0';
  }
  return 0;
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

std::string too_old_for_image(std::string_view image, const std::string& driver) {
  const int cuda = cuda_of_image(image);
  const auto needed = facts::driver_branch_of_cuda(cuda);
  const auto version = facts::version_of(driver);
  if (!needed || !version || (*version)[0] >= *needed) return "";
  return fmt::format("is of CUDA {}, which needs a driver of branch {} or later, and this one is {}", cuda, *needed,
                     core::shown(driver));
}

}  // namespace penstock::tools::k8s
