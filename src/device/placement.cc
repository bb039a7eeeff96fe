// SPDX-License-Identifier: Apache-2.0

#include "device/placement.h"

#include <algorithm>

#include "base/kept_text.h"
#include "base/number_text.h"
#include "device/locality.h"

namespace penstock::core {
namespace {

constexpr std::string_view kAuto = "auto", kOff = "off", kNode = "node:", kCpus = "cpus:";
constexpr const char* kNodes = "/sys/devices/system/node";

std::optional<int> number_of(std::string_view text) {
  const std::optional<int> number = parse_number<int>(text);
  return number && *number >= 0 && *number < kNodesMax ? number : std::nullopt;
}

CpuSet cpus_of_node(const std::string& root, int node) {
  return parse_cpu_list(read_first_line(root + kNodes + "/node" + std::to_string(node) + "/cpulist"));
}

// The node that contains all of these CPUs.
int node_of_cpus(const std::string& root, const CpuSet& cpus) {
  const CpuSet nodes = parse_cpu_list(read_first_line(root + kNodes + "/online"));
  for (int node = 0; node < kNodesMax; ++node) {
    if (nodes[static_cast<std::size_t>(node)] && (cpus & ~cpus_of_node(root, node)).none()) return node;
  }
  return -1;
}

std::string name_of(const Placement& placement) {
  switch (placement.by) {
    case Placement::By::device: return std::string(kAuto);
    case Placement::By::nothing: return std::string(kOff);
    case Placement::By::node: return std::string(kNode) + std::to_string(placement.node);
    case Placement::By::cpus: break;
  }
  return std::string(kCpus) + cpu_list_text(placement.cpus);
}

Status refused(const Placement& said, const std::string& why) {
  constexpr const char* kStep = "use a placement that this machine does not have";
  return failure(Code::bad_setting, kept_text("use placement=" + name_of(said) + ": " + why, kStep));
}

}  // namespace

std::optional<Placement> parse_placement(std::string_view text) {
  if (text == kAuto) return Placement{};
  if (text == kOff) return Placement{.by = Placement::By::nothing, .node = -1, .cpus = {}};
  if (text.starts_with(kNode)) {
    const std::optional<int> node = number_of(text.substr(kNode.size()));
    return node ? std::optional(Placement{Placement::By::node, *node, {}}) : std::nullopt;
  }
  const CpuSet cpus = text.starts_with(kCpus) ? parse_cpu_list(text.substr(kCpus.size())) : CpuSet{};
  return cpus.any() ? std::optional(Placement{Placement::By::cpus, -1, cpus}) : std::nullopt;
}

bool is_placement(std::string_view text) { return parse_placement(text).has_value(); }

Result<Placement> placement_on(const std::string& root, const Placement& said, const CpuSet& allowed) {
  Placement placement = said;
  if (said.by == Placement::By::node) {
    placement.cpus = cpus_of_node(root, said.node);
    const std::string online = read_first_line(root + kNodes + "/online");
    const CpuSet nodes = parse_cpu_list(online);
    if (!nodes[static_cast<std::size_t>(said.node)]) {
      return refused(said, "this machine has no NUMA node " + std::to_string(said.node) +
                               (nodes.any() ? ", but " + cpu_list_text(nodes) : ""));
    }
  } else if (said.by == Placement::By::cpus) {
    placement.node = node_of_cpus(root, said.cpus);
  }
  // A node may have memory only: threads then stay where they are.
  if (placement.cpus.any() && allowed.any() && (placement.cpus & allowed).none()) {
    return refused(said, "this process may use none of the CPUs " + cpu_list_text(placement.cpus) + ", but " +
                             cpu_list_text(allowed));
  }
  return placement;
}

std::string placement_text(const Placement& placement) {
  const std::string name = name_of(placement);
  switch (placement.by) {
    case Placement::By::device: return name + ": near the GPU that they work for";
    case Placement::By::nothing: return name + ": wherever the kernel puts them";
    case Placement::By::node:
    case Placement::By::cpus: break;
  }
  std::string text = name + ": pinned memory ";
  text += placement.node < 0 ? "on no node in particular" : "on NUMA node " + std::to_string(placement.node);
  return placement.cpus.none() ? text : text + ", threads on CPUs " + cpu_list_text(placement.cpus);
}

}  // namespace penstock::core
