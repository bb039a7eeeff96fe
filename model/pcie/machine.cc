// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <unordered_set>

namespace penstock::model {
namespace {

constexpr std::array<const char*, 6> kKindNames = {"root", "switch", "gpu", "drive", "nic", "fabric"};
constexpr double kRateMax = 1e15;
constexpr double kSecondsMax = 1;

bool may_carry(NodeKind parent, NodeKind child) {
  if (parent == NodeKind::fabric) return child == NodeKind::fabric || child == NodeKind::drive;
  const bool is_bridge = parent == NodeKind::root || parent == NodeKind::pci_switch;
  return is_bridge && child != NodeKind::fabric && child != NodeKind::root;
}

void check_range(const Machine& machine, const Node& node, const char* what, double value, double most) {
  // Written so that a NaN fails.
  if (!(value >= 0 && value <= most)) {
    fail_at(machine, node, fmt::format("{} is {}; it must be from 0 to {:g}", what, value, most));
  }
}

void check_numbers(const Machine& machine, const Node& node) {
  check_range(machine, node, "memory rate", node.memory_rate, kRateMax);
  check_range(machine, node, "copy rate", node.copy_rate, kRateMax);
  check_range(machine, node, "root complex rate", node.complex_rate, kRateMax);
  check_range(machine, node, "socket link rate", node.socket_link_rate, kRateMax);
  check_range(machine, node, "crossbar rate upward", node.crossbar_up_rate, kRateMax);
  check_range(machine, node, "crossbar rate downward", node.crossbar_down_rate, kRateMax);
  check_range(machine, node, "read rate", node.read_rate, kRateMax);
  check_range(machine, node, "write rate", node.write_rate, kRateMax);
  check_range(machine, node, "wire rate", node.wire_rate, kRateMax);
  check_range(machine, node, "credit", node.link.credit_bytes, kRateMax);
  check_range(machine, node, "read window", node.link.read_window_bytes, kRateMax);
  check_range(machine, node, "round trip", node.link.round_trip_seconds, kSecondsMax);
  check_range(machine, node, "stream change", node.change_seconds, kSecondsMax);
  check_range(machine, node, "interleave", node.interleave_bytes, kRateMax);
  check_range(machine, node, "access time", node.access_seconds, kSecondsMax);
  check_range(machine, node, "command time", node.command_seconds, kSecondsMax);
  check_range(machine, node, "jitter", node.jitter, 1);
  if (node.change_seconds > 0 && node.interleave_bytes < 1) fail_at(machine, node, "interleave is 0 bytes");
}

void check_link(const Machine& machine, const Node& node) {
  const PcieLink& link = node.link;
  if (!is_generation(link.generation)) fail_at(machine, node, "generation must be from 1 to 7");
  if (!is_width(link.width)) fail_at(machine, node, "width must be 1, 2, 4, 8, 16 or 32 lanes");
  if (link.max_payload != 0 && !is_packet_size(link.max_payload)) {
    fail_at(machine, node, "max_payload must be a power of two from 128 to 4096");
  }
  if (!is_packet_size(link.max_read_request)) {
    fail_at(machine, node, "max_read_request must be a power of two from 128 to 4096");
  }
}

bool is_top(const Node& node) { return node.parent == kNone; }

void check_place(const Machine& machine, const Node& node) {
  const bool may_be_top = node.kind == NodeKind::root || node.kind == NodeKind::fabric;
  if (is_top(node)) {
    if (!may_be_top) fail_at(machine, node, "has no parent: name the root or switch whose port it is in");
    return;
  }
  if (node.parent < 0 || static_cast<std::size_t>(node.parent) >= machine.nodes.size()) {
    fail_at(machine, node, "has a parent that does not exist");
  }
  const Node& parent = machine.node(node.parent);
  if (!may_carry(parent.kind, node.kind)) {
    fail_at(machine, node,
            fmt::format("a {} has no port for a {}: '{}' cannot be its parent", node_kind_name(parent.kind),
                        node_kind_name(node.kind), parent.name));
  }
  if (parent.kind != NodeKind::fabric) check_link(machine, node);
}

// Every node's chain of parents must end; each node is visited once.
void check_no_cycle(const Machine& machine) {
  enum State : std::uint8_t { kNew, kOnTheWay, kEnds };
  std::vector<State> states(machine.nodes.size(), kNew);
  for (std::size_t start = 0; start < machine.nodes.size(); ++start) {
    std::vector<int> way;
    int at = static_cast<int>(start);
    for (; at != kNone && states[static_cast<std::size_t>(at)] == kNew; at = machine.node(at).parent) {
      states[static_cast<std::size_t>(at)] = kOnTheWay;
      way.push_back(at);
    }
    if (at != kNone && states[static_cast<std::size_t>(at)] == kOnTheWay) {
      fail_at(machine, machine.node(at), "is above itself: its parents form a cycle");
    }
    for (const int index : way) states[static_cast<std::size_t>(index)] = kEnds;
  }
}

void check_ports(const Machine& machine) {
  std::vector<unsigned> used(machine.nodes.size(), 0);
  for (const Node& node : machine.nodes) {
    if (is_top(node)) continue;
    const Node& parent = machine.node(node.parent);
    if (++used[static_cast<std::size_t>(node.parent)] > parent.ports && parent.ports != 0) {
      fail_at(machine, node, fmt::format("'{}' has only {} ports, and they are taken", parent.name, parent.ports));
    }
  }
}

void check_names(const Machine& machine) {
  std::unordered_set<std::string_view> names;
  for (const Node& node : machine.nodes) {
    if (node.name.empty()) fail_at(machine, node, "a node has no name");
    if (!names.insert(node.name).second) fail_at(machine, node, "the name is given twice");
  }
}

}  // namespace

const char* node_kind_name(NodeKind kind) { return kKindNames.at(static_cast<std::size_t>(kind)); }

int Machine::find(std::string_view wanted) const {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].name == wanted) return static_cast<int>(i);
  }
  return kNone;
}

std::vector<int> Machine::all(NodeKind kind) const {
  std::vector<int> found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].kind == kind) found.push_back(static_cast<int>(i));
  }
  return found;
}

std::pair<std::size_t, std::size_t> meeting(const std::vector<int>& up, const std::vector<int>& down) {
  for (std::size_t i = 0; i < up.size(); ++i) {
    const auto met = std::find(down.begin(), down.end(), up[i]);
    if (met != down.end()) return {i, static_cast<std::size_t>(met - down.begin())};
  }
  return {up.size(), down.size()};
}

std::vector<int> Machine::ancestors(int index) const {
  std::vector<int> way;
  for (int at = index; at != kNone; at = node(at).parent) way.push_back(at);
  return way;
}

int Machine::root_of(int index) const {
  while (node(index).parent != kNone) index = node(index).parent;
  return index;
}

double bdf_number(const Machine& machine, int index) {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  const std::string& address = machine.node(index).address;
  if (std::sscanf(address.c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function) == 4) {
    return std::max(1U, (bus & 0xff) << 8 | (device & 0x1f) << 3 | (function & 7));
  }
  return (index % 255 + 1) << 8;
}

std::string place(const std::string& source, int line) {
  return line == 0 ? source + ": " : fmt::format("{}:{}: ", source, line);
}

void fail_at(const Machine& machine, const Node& node, const std::string& what) {
  throw InputError(
      fmt::format("{}{} '{}': {}", place(machine.source, node.line), node_kind_name(node.kind), node.name, what));
}

void check_machine(const Machine& machine) {
  if (machine.nodes.empty()) throw InputError(machine.source + ":1: the topology has no nodes");
  if (machine.nodes.size() > kNodesMax) throw InputError(machine.source + ":1: the topology has too many nodes");
  check_names(machine);
  for (const Node& node : machine.nodes) {
    check_place(machine, node);
    check_numbers(machine, node);
    if (node.fabric == kNone) continue;
    const bool exists = node.fabric >= 0 && static_cast<std::size_t>(node.fabric) < machine.nodes.size();
    if (node.kind != NodeKind::nic || !exists || machine.node(node.fabric).kind != NodeKind::fabric) {
      fail_at(machine, node, "only a nic has a fabric, and it must be one");
    }
  }
  check_no_cycle(machine);
  check_ports(machine);
}

}  // namespace penstock::model
