// SPDX-License-Identifier: Apache-2.0

// The route between two nodes of a machine: its links, crossbars, root complexes, memories and wires, in order. Network
// makes stations of them. It uses no rates.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/pcie/machine.h"
#include "model/pcie/workload.h"

namespace penstock::model {

enum class Role : std::uint8_t {
  link_up,  // The node's link to its parent, PCIe or a fabric's, upward.
  link_down,
  crossbar_up,
  crossbar_down,
  complex,
  memory,
  copy,
  socket_link,
  media,
  wire_in,
  wire_out,
};

struct Visit {
  int node = kNone;
  Role role = Role::link_up;
  double passes = 1;
};

class RouteFinder {
 public:
  RouteFinder(const Machine& machine, IommuMode iommu);

  // Fills `way`, and returns "", or why there is no route. `through` names the nic for crossing a fabric.
  std::string find(int from, int to, const std::string& through, std::vector<Visit>& way);

 private:
  using Way = std::vector<Visit>;
  std::string pcie(int from, int to, Way& way) const;
  std::string over_fabric(int server, int device, const std::string& through, bool is_read, Way& way);
  int nic_named(int device, const std::string& name) const;
  int nic_beside(int device, int fabric_root);
  std::string_view host_of(int node) const { return machine_.node(machine_.root_of(node)).host; }
  bool is_in_fabric(int node) const { return machine_.node(machine_.root_of(node)).kind == NodeKind::fabric; }
  void add_end(int node, Role wire, Way& way) const;  // `wire` is that of a NIC which bytes pass at this end.
  void climb(const std::vector<int>& up, std::size_t steps, Way& way) const;
  void descend(const std::vector<int>& down, std::size_t steps, Way& way) const;

  const Machine& machine_;
  bool is_redirected_;
  std::map<std::string_view, std::vector<int>> nics_of_host_;
  std::map<int, int> devices_of_nic_;                // Number of devices that use the nic as their nearest.
  std::map<std::pair<int, int>, int> nearest_nics_;  // The nearest nic, by device and root of a fabric.
};

}  // namespace penstock::model
