// SPDX-License-Identifier: Apache-2.0

// A machine for the contention model: its topology and the speed of each part, without any workload. Topology files,
// built-in machines, hwloc and this host all become a Machine; Network turns it and a Workload into stations and
// routes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/input.h"
#include "model/pcie/pcie_link.h"

namespace penstock::model {

// Wrong input: one sentence that begins with its place, "server.yaml:12: ...".
class InputError : public InvalidInput {
 public:
  using InvalidInput::InvalidInput;
};

enum class NodeKind : std::uint8_t {
  root,        // A socket: its root ports, its host memory.
  pci_switch,  // A PCIe switch: up and down ports around a crossbar.
  gpu,
  drive,   // A drive under a root or a switch; under a fabric, a storage server.
  nic,     // A NIC with a PCIe side (parent) and a wire, possibly into a fabric.
  fabric,  // A network switch or a plane of them.
};
const char* node_kind_name(NodeKind kind);

constexpr int kNone = -1;
constexpr double kGiga = 1e9;
constexpr double kMicro = 1e-6;

// Rates are in bytes a second; 0 means unlimited. The kind decides which fields are used.
struct Node {
  std::string name;
  NodeKind kind = NodeKind::root;
  int parent = kNone;   // Index of the node above.
  PcieLink link;        // Link to the parent, if that is PCIe.
  int line = 0;         // Line in the topology file; 0 if there is none.
  std::string address;  // Address on the PCI bus; "" if unknown.

  // root
  // Sockets with the same host name communicate through their interconnect, others only through a fabric.
  std::string host;
  double memory_rate = 0;  // Rate of host memory, reads plus writes.
  double copy_rate = 0;    // Copy rate of its CPUs.
  double complex_rate = 0;
  double socket_link_rate = 0;  // Each way.

  // pci_switch
  double crossbar_up_rate = 0;  // Crossbar rate towards the root.
  double crossbar_down_rate = 0;
  double change_seconds = 0;    // Cost of each change between streams.
  double interleave_bytes = 0;  // Bytes of a stream before the next one's turn.
  unsigned ports = 0;           // Number of downstream ports; 0: as many as needed.

  // drive
  double read_rate = 0;
  double write_rate = 0;
  double access_seconds = 0;
  double command_seconds = 0;  // Least time between two commands.
  double jitter = 0;           // Variable share of the access time.
  unsigned queue = 0;          // Commands in flight; 0: any number.

  // nic: rate of its wire; fabric, and a drive under one: rate of the link upward. In each direction.
  double wire_rate = 0;
  int fabric = kNone;  // Of a nic: the fabric of its wire.
};

struct Machine {
  std::string name;
  std::string source;  // For messages: the file it was read from, or "built in".
  std::vector<Node> nodes;

  const Node& node(int index) const { return nodes[static_cast<std::size_t>(index)]; }
  int find(std::string_view name) const;  // kNone for an unknown name.
  std::vector<int> all(NodeKind kind) const;
  // The node's parents up to the root of its tree.
  std::vector<int> ancestors(int index) const;
  int root_of(int index) const;
};

// Bus, device and function as one number, with 8, 5 and 3 bits. For an unknown address, numbers the node's position as
// the bus.
double bdf_number(const Machine& machine, int index);

constexpr std::size_t kNodesMax = 100000;

// Throws InputError for an impossible machine: loops, missing or too many ports, zero widths, NaN rates. Every source
// of machines calls it last.
void check_machine(const Machine& machine);
// "server.yaml:7: "; "built-in machine: " without a line.
std::string place(const std::string& source, int line);
[[noreturn]] void fail_at(const Machine& machine, const Node& node, const std::string& what);

// The steps from each of two nodes up to the first ancestor of both; the whole lengths if there is none.
std::pair<std::size_t, std::size_t> meeting(const std::vector<int>& up, const std::vector<int>& down);

}  // namespace penstock::model
