// SPDX-License-Identifier: Apache-2.0

// The RDMA devices of a machine, from /sys/class/infiniband, and the facts of their network interfaces.
//
// For code that judges a fabric. It only reads, and judges nothing. The kernel's files do not contain the MTU of a
// port: on Ethernet it follows from the interface's. On InfiniBand it stays unknown: neither /sys nor RDMA's netlink
// reports it (nldev, RDMA_NLDEV_CMD_PORT_GET), and the verbs' QUERY_PORT needs a context, which each driver creates in
// its own form and which takes resources of the device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/flow_control.h"
#include "topology/root.h"

namespace penstock::core {

constexpr unsigned kRdmaMtuMost = 4096;  // The largest that the InfiniBand specification has.

struct NetworkInterface {
  std::string name;
  unsigned mtu = 0;  // Bytes; 0 if unknown.
  // RoCE's congestion control is on for any priority; only drivers of NVIDIA's OFED report it.
  std::optional<bool> ecn;
  FlowControl flow_control{};
};

struct RdmaPort {
  unsigned number = 0;
  std::string state;       // "ACTIVE", "DOWN", "INIT", "ARMED"; "" if unknown.
  std::string link_layer;  // "Ethernet", "InfiniBand"
  std::string rate;        // "100 Gb/sec (4X EDR)"
  unsigned gids = 0;       // The number of GIDs that are set.
  unsigned typed_gids = 0;
  unsigned roce_v2_gids = 0;
  unsigned routed_gids = 0;                  // RoCE v2 GIDs from a routable IP address, which is not link-local.
  std::vector<NetworkInterface> interfaces;  // Only on Ethernet.

  bool is_active() const { return state == "ACTIVE"; }
  bool is_ethernet() const { return link_layer == "Ethernet"; }
};

struct RdmaDevice {
  std::string name;          // "mlx5_0"
  std::string pci_address;   // "" for a device made by software (rxe, siw).
  bool is_software = false;  // The CPU does the work of an adapter.
  std::vector<RdmaPort> ports;
};

std::vector<RdmaDevice> read_rdma_devices(const Root& root);
// True if there are RDMA devices, and all are made by software.
bool has_rdma_of_software_alone(const Root& root);

// The MTU of RoCE on an interface: the largest of 256, 512, ... 4096 that fits with its headers; 0 if none does.
unsigned rdma_mtu_on(unsigned interface_mtu);

}  // namespace penstock::core
