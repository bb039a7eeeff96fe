// SPDX-License-Identifier: Apache-2.0

#include "topology/gds_evidence.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "topology/text.h"

namespace penstock::core {
namespace {

constexpr std::size_t kHooksMax = 64;
constexpr std::size_t kParametersMax = 512;

constexpr const char* kModules[] = {"nvidia",    "nvidia_uvm", "nvidia_fs", "nvidia_peermem", "gdrdrv",
                                    "nvme",      "nvme_core",  "nvme_rdma", "nvme_tcp",       "rpcrdma",
                                    "mlx5_core", "ib_core",    "lnet",      "wekafsio",       "beegfs"};

// "nvme_v1" is the driver nvme in version 1; "rpcrdma" has none.
NvfsHook hook_of(std::string_view begin, std::string_view module) {
  NvfsHook hook{std::string(begin), 0, std::string(module)};
  const std::size_t version = begin.rfind("_v");
  if (version == std::string_view::npos) return hook;
  const auto number = parse_number<int>(begin.substr(version + 2));
  if (number) hook = {std::string(begin.substr(0, version)), *number, std::string(module)};
  return hook;
}

// "0000000000000000 t nvme_v1_register_nvfs_dma_ops\t[nvme]"
std::optional<NvfsHook> hook_in(std::string line) {
  std::replace(line.begin(), line.end(), '\t', ' ');
  const std::vector<std::string_view> words = split(line, ' ');
  // Symbols derived from a function, such as __ksymtab entries.
  if (words.size() < 3 || words[2].starts_with("__")) return std::nullopt;
  std::string_view module = words.size() > 3 ? words[3] : std::string_view();
  if (module.starts_with('[') && module.ends_with(']')) module = module.substr(1, module.size() - 2);
  if (words[2] == kScsiHook) return NvfsHook{"scsi", 1, std::string(module)};
  if (!words[2].ends_with(kHookEnd)) return std::nullopt;
  return hook_of(words[2].substr(0, words[2].size() - kHookEnd.size()), module);
}

void find_hooks(const KernelSymbols& symbols, GdsEvidence& evidence) {
  evidence.has_symbols = symbols.has_functions;
  for (std::size_t i = 0; i < std::min(symbols.hooks.size(), kHooksMax); ++i) {
    auto hook = hook_in(symbols.hooks[i]);
    if (hook && std::find(evidence.hooks.begin(), evidence.hooks.end(), *hook) == evidence.hooks.end()) {
      evidence.hooks.push_back(std::move(*hook));
    }
  }
}

void read_modules(const Root& root, GdsEvidence& evidence) {
  for (const char* const name : kModules) {
    const std::string folder = std::string("/sys/module/") + name;
    if (!root.exists(folder)) continue;
    // A built-in module shows no state, and is always there.
    const std::string state = root.read_line(folder + "/initstate");
    evidence.modules.push_back({name, root.read_line(folder + "/version"), state.empty() || state == "live"});
  }
}

// "Name: value"
void read_parameters(const Root& root, GdsEvidence& evidence) {
  const std::string text = root.read("/proc/driver/nvidia/params").value_or(std::string());
  std::string_view rest = text;
  while (!rest.empty() && evidence.driver_parameters.size() < kParametersMax) {
    std::string_view line = take_until(rest, '\n');
    const std::string_view name = trim(take_until(line, ':'));
    std::string_view value = trim(line);
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    if (!name.empty()) evidence.driver_parameters.emplace(name, value);
  }
}

}  // namespace

const KernelModule* GdsEvidence::module(const std::string& name) const {
  const auto found =
      std::find_if(modules.begin(), modules.end(), [&](const KernelModule& one) { return one.name == name; });
  return found == modules.end() ? nullptr : &*found;
}

bool GdsEvidence::has_hook(const std::string& driver) const {
  return std::any_of(hooks.begin(), hooks.end(), [&](const NvfsHook& one) { return one.driver == driver; });
}

GdsEvidence read_gds_evidence(const Root& root, const KernelSymbols& symbols) {
  GdsEvidence evidence;
  evidence.vendor = root.read_line("/sys/class/dmi/id/sys_vendor");
  evidence.product = root.read_line("/sys/class/dmi/id/product_name");
  find_hooks(symbols, evidence);
  read_modules(root, evidence);
  read_parameters(root, evidence);
  return evidence;
}

}  // namespace penstock::core
