// SPDX-License-Identifier: Apache-2.0

// A machine as the contention model sees it: what hangs where, how fast each thing is, and nothing about the bytes
// that will flow. Topology files, built-in machines, hwloc and this host all end as a Machine; Network turns it and a
// Workload into stations and routes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/input.h"
#include "model/pcie/pcie_link.h"

namespace penstock::model {

// Wrong input, in one sentence that begins with where: "server.yaml:12: ...".
class InputError : public InvalidInput {
 public:
  using InvalidInput::InvalidInput;
};

enum class NodeKind : std::uint8_t {
  root,        // A socket: its root ports, its host memory.
  pci_switch,  // Ports up and down around a crossbar.
  gpu,
  drive,   // Under a root or a switch; under a fabric it is a storage server.
  nic,     // Has a PCIe side (parent) and a wire, maybe into a fabric.
  fabric,  // A network switch or a plane of them.
};
const char* node_kind_name(NodeKind kind);

constexpr int kNone = -1;

// Rates are in bytes a second, 0 where nothing limits. Which fields count is told by the kind.
struct Node {
  std::string name;
  NodeKind kind = NodeKind::root;
  int parent = kNone;   // Index of the node above.
  PcieLink link;        // To the parent, where that is PCIe.
  int line = 0;         // In the topology file; 0 where there is none.
  std::string address;  // On the PCI bus; "" where it is not known.

  // root
  std::string host;        // Sockets of one name talk through their interconnect, others only through a fabric.
  double memory_rate = 0;  // Host memory, reads and writes together.
  double copy_rate = 0;    // What its CPUs copy at most.
  double complex_rate = 0;
  double socket_link_rate = 0;  // Each way.

  // pci_switch
  double crossbar_up_rate = 0;  // Towards the root.
  double crossbar_down_rate = 0;
  double change_seconds = 0;    // For each change from one stream to another.
  double interleave_bytes = 0;  // How much of a stream passes before the next one's turn.
  unsigned ports = 0;           // Downward; 0: as many as needed.

  // drive
  double read_rate = 0;
  double write_rate = 0;
  double access_seconds = 0;
  double command_seconds = 0;  // The least time from one command to the next.
  double jitter = 0;           // Share of the access time that varies.
  unsigned queue = 0;          // Commands at a time; 0: any number.

  // nic: its wire; fabric, and a drive under one: the link upward. Each way.
  double wire_rate = 0;
  int fabric = kNone;  // Of a nic: where its wire goes.
};

struct Machine {
  std::string name;
  std::string source;  // For messages: the file it was read from, or "built in".
  std::vector<Node> nodes;

  const Node& node(int index) const { return nodes[static_cast<std::size_t>(index)]; }
  int find(std::string_view name) const;  // kNone where there is none.
  std::vector<int> all(NodeKind kind) const;
  // Steps up from the node until its tree ends.
  std::vector<int> ancestors(int index) const;
  int root_of(int index) const;
};

// Bus, device and function as one number, 8, 5 and 3 bits of it. Where the address is not known, as a bus that is
// numbered by the order of the nodes.
double bdf_number(const Machine& machine, int index);

constexpr std::size_t kNodesMax = 100000;

// Throws InputError for a machine that cannot be: loops, missing or too many ports, zero widths, rates that are no
// numbers. Every source of machines ends with it.
void check_machine(const Machine& machine);
// "server.yaml:7: "; "built-in machine: " where there is no line.
std::string place(const std::string& source, int line);
[[noreturn]] void fail_at(const Machine& machine, const Node& node, const std::string& what);

}  // namespace penstock::model
