// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/route_finder.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

namespace penstock::model {

RouteFinder::RouteFinder(const Machine& machine, IommuMode iommu)
    : machine_(machine), is_redirected_(iommu == IommuMode::redirect) {
  for (const int nic : machine.all(NodeKind::nic)) nics_of_host_[host_of(nic)].push_back(nic);
}

void RouteFinder::add_end(int node, Role wire, Way& way) const {
  const NodeKind kind = machine_.node(node).kind;
  if (kind == NodeKind::drive) way.push_back({node, Role::media});
  if (kind == NodeKind::nic) way.push_back({node, wire});
  if (kind == NodeKind::root) way.push_back({node, Role::memory});
}

// Climbs `steps` links, through the switches between them.
void RouteFinder::climb(const std::vector<int>& up, std::size_t steps, Way& way) const {
  for (std::size_t i = 0; i < steps; ++i) {
    if (i > 0 && machine_.node(up[i]).kind == NodeKind::pci_switch) way.push_back({up[i], Role::crossbar_up});
    const bool is_wire = is_in_fabric(up[i]);
    way.push_back({up[i], is_wire ? Role::wire_out : Role::link_up});
  }
}

void RouteFinder::descend(const std::vector<int>& down, std::size_t steps, Way& way) const {
  for (std::size_t i = steps; i-- > 0;) {
    const bool is_wire = is_in_fabric(down[i]);
    way.push_back({down[i], is_wire ? Role::wire_in : Role::link_down});
    if (i > 0 && machine_.node(down[i]).kind == NodeKind::pci_switch) way.push_back({down[i], Role::crossbar_down});
  }
}

std::string RouteFinder::pcie(int from, int to, Way& way) const {
  const std::vector<int> up = machine_.ancestors(from);
  const std::vector<int> down = machine_.ancestors(to);
  auto [steps_up, steps_down] = meeting(up, down);
  const int root_from = up.back();
  const int root_to = down.back();
  if (root_from != root_to && machine_.node(root_from).host != machine_.node(root_to).host) {
    return "its ends are in different hosts, and no fabric joins them";
  }
  const bool both_are_devices = from != root_from && to != root_to;
  if (is_redirected_ && both_are_devices) steps_up = up.size() - 1, steps_down = down.size() - 1;
  if (root_from != root_to) steps_up = up.size() - 1, steps_down = down.size() - 1;

  climb(up, steps_up, way);
  const int top = up[steps_up];
  if (machine_.node(top).kind == NodeKind::pci_switch) way.push_back({top, Role::crossbar_down});
  if (machine_.node(top).kind == NodeKind::root) way.push_back({top, Role::complex});
  if (root_from != root_to) {
    way.push_back({root_from, Role::socket_link});
    way.push_back({root_to, Role::complex});
  }
  descend(down, steps_down, way);
  return "";
}

int RouteFinder::nic_named(int device, const std::string& name) const {
  const int named = machine_.find(name);
  const bool fits = named != kNone && machine_.node(named).kind == NodeKind::nic &&
                    machine_.node(named).fabric != kNone && pcie_distance(machine_, named, device) >= 0;
  return fits ? named : kNone;
}

// The nearest nic; among equals the one with the fewest devices, so that two GPUs and two NICs of a switch form two
// pairs.
int RouteFinder::nic_beside(int device, int fabric_root) {
  const auto [place, is_new] = nearest_nics_.try_emplace({device, fabric_root}, kNone);
  if (!is_new) return place->second;
  std::pair best(INT_MAX, INT_MAX);
  for (const int nic : nics_of_host_[host_of(device)]) {
    const int fabric = machine_.node(nic).fabric;
    if (fabric == kNone || machine_.root_of(fabric) != fabric_root) continue;
    const int distance = pcie_distance(machine_, nic, device);
    const std::pair key(distance, devices_of_nic_[nic]);
    if (distance >= 0 && key < best) place->second = nic, best = key;
  }
  if (place->second != kNone) ++devices_of_nic_[place->second];
  return place->second;
}

// Finds the route between a server of the fabric and a device behind one of a host's nics.
std::string RouteFinder::over_fabric(int server, int device, const std::string& through, bool is_read, Way& way) {
  const int nic = through.empty() ? nic_beside(device, machine_.root_of(server)) : nic_named(device, through);
  if (nic == kNone) return fmt::format("no nic joins '{}' to its fabric", machine_.node(device).name);
  const std::vector<int> server_up = machine_.ancestors(server);
  const std::vector<int> nic_up = machine_.ancestors(machine_.node(nic).fabric);
  const auto [server_steps, nic_steps] = meeting(server_up, nic_up);
  if (is_read) {
    add_end(server, Role::wire_in, way);
    climb(server_up, server_steps, way);
    descend(nic_up, nic_steps, way);
    add_end(nic, Role::wire_in, way);
    return pcie(nic, device, way);
  }
  const std::string problem = pcie(device, nic, way);
  add_end(nic, Role::wire_out, way);
  climb(nic_up, nic_steps, way);
  descend(server_up, server_steps, way);
  add_end(server, Role::wire_out, way);
  return problem;
}

std::string RouteFinder::find(int from, int to, const std::string& through, Way& way) {
  way.clear();
  if (is_in_fabric(from) && is_in_fabric(to)) return "both of its ends are in a fabric";
  if (is_in_fabric(from)) {
    const std::string problem = over_fabric(from, to, through, true, way);
    if (problem.empty()) add_end(to, Role::wire_out, way);
    return problem;
  }
  if (is_in_fabric(to)) {
    add_end(from, Role::wire_in, way);
    return over_fabric(to, from, through, false, way);
  }
  add_end(from, Role::wire_in, way);
  const std::string problem = pcie(from, to, way);
  add_end(to, Role::wire_out, way);
  return problem;
}

}  // namespace penstock::model
