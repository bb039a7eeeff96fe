// SPDX-License-Identifier: Apache-2.0

// The keys of topology files: the node's field and the unit of each. Reading and writing share the table. Only for
// topology_file.cc.
#pragma once

#include <array>
#include <cstddef>

#include "model/pcie/machine.h"

namespace penstock::model {

constexpr double kGigabyte = 1e9;
constexpr double kMicrosecond = 1e-6;
constexpr double kNanosecond = 1e-9;

constexpr unsigned kind_bit(NodeKind kind) { return 1U << static_cast<unsigned>(kind); }
constexpr unsigned kRoot = kind_bit(NodeKind::root);
constexpr unsigned kSwitch = kind_bit(NodeKind::pci_switch);
constexpr unsigned kDrive = kind_bit(NodeKind::drive);
constexpr unsigned kNic = kind_bit(NodeKind::nic);
constexpr unsigned kFabric = kind_bit(NodeKind::fabric);
constexpr unsigned kOnPcie = kSwitch | kDrive | kNic | kind_bit(NodeKind::gpu);

struct NodeNumber {
  const char* key;
  unsigned kinds;  // The kinds of nodes that have the key.
  double Node::*value;
  double unit;
};
constexpr std::array kNodeNumbers = {
    NodeNumber{"memory_gigabytes_per_second", kRoot, &Node::memory_rate, kGigabyte},
    NodeNumber{"copy_gigabytes_per_second", kRoot, &Node::copy_rate, kGigabyte},
    NodeNumber{"complex_gigabytes_per_second", kRoot, &Node::complex_rate, kGigabyte},
    NodeNumber{"socket_link_gigabytes_per_second", kRoot, &Node::socket_link_rate, kGigabyte},
    NodeNumber{"crossbar_up_gigabytes_per_second", kSwitch, &Node::crossbar_up_rate, kGigabyte},
    NodeNumber{"crossbar_down_gigabytes_per_second", kSwitch, &Node::crossbar_down_rate, kGigabyte},
    NodeNumber{"change_ns", kSwitch, &Node::change_seconds, kNanosecond},
    NodeNumber{"interleave_bytes", kSwitch, &Node::interleave_bytes, 1},
    NodeNumber{"read_gigabytes_per_second", kDrive, &Node::read_rate, kGigabyte},
    NodeNumber{"write_gigabytes_per_second", kDrive, &Node::write_rate, kGigabyte},
    NodeNumber{"access_us", kDrive, &Node::access_seconds, kMicrosecond},
    NodeNumber{"command_us", kDrive, &Node::command_seconds, kMicrosecond},
    NodeNumber{"jitter", kDrive, &Node::jitter, 1},
    NodeNumber{"wire_gigabytes_per_second", kNic | kFabric | kDrive, &Node::wire_rate, kGigabyte},
};

struct LinkNumber {
  const char* key;
  double PcieLink::*value;
  double unit;
};
constexpr std::array kLinkNumbers = {
    LinkNumber{"credit_bytes", &PcieLink::credit_bytes, 1},
    LinkNumber{"read_window_bytes", &PcieLink::read_window_bytes, 1},
    LinkNumber{"round_trip_ns", &PcieLink::round_trip_seconds, kNanosecond},
};

struct LinkCount {
  const char* key;
  unsigned PcieLink::*value;
};
constexpr std::array kLinkCounts = {
    LinkCount{"generation", &PcieLink::generation},
    LinkCount{"width", &PcieLink::width},
    LinkCount{"max_payload", &PcieLink::max_payload},
    LinkCount{"max_read_request", &PcieLink::max_read_request},
};

struct NodeCount {
  const char* key;
  unsigned kinds;
  unsigned Node::*value;
};
constexpr std::array kNodeCounts = {
    NodeCount{"ports", kSwitch, &Node::ports},
    NodeCount{"queue", kDrive, &Node::queue},
};

}  // namespace penstock::model
