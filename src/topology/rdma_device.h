// SPDX-License-Identifier: Apache-2.0

// The RDMA devices of a machine, from /sys/class/infiniband, and what their network interfaces tell.
//
// For code that judges a fabric. It reads, and judges nothing. The kernel's files do not tell the MTU of a port: on
// Ethernet it follows from the interface's. On InfiniBand it stays unknown: neither /sys nor netlink of RDMA has it
// (nldev, RDMA_NLDEV_CMD_PORT_GET), and the verbs' QUERY_PORT answers only a process that has had the driver make a
// context first, in a form of each driver's own, which takes resources of the device.
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
  unsigned mtu = 0;         // Bytes; 0 where unknown.
  std::optional<bool> ecn;  // RoCE's congestion control, for any priority; drivers of NVIDIA's OFED alone tell it.
  FlowControl flow_control{};
};

struct RdmaPort {
  unsigned number = 0;
  std::string state;       // "ACTIVE", "DOWN", "INIT", "ARMED"; "" where unknown.
  std::string link_layer;  // "Ethernet", "InfiniBand"
  std::string rate;        // "100 Gb/sec (4X EDR)"
  unsigned gids = 0;       // The number that are set.
  unsigned typed_gids = 0;
  unsigned roce_v2_gids = 0;
  unsigned routed_gids = 0;  // RoCE v2 ones made of an IP address that counts beyond the port's own link.
  std::vector<NetworkInterface> interfaces;  // On Ethernet.

  bool is_active() const { return state == "ACTIVE"; }
  bool is_ethernet() const { return link_layer == "Ethernet"; }
};

struct RdmaDevice {
  std::string name;          // "mlx5_0"
  std::string pci_address;   // "" for a device made by software (rxe, siw).
  bool is_software = false;  // Seen to be such: the CPU does what an adapter would.
  std::vector<RdmaPort> ports;
};

std::vector<RdmaDevice> read_rdma_devices(const Root& root);
// There are RDMA devices, and each is made by software.
bool has_rdma_of_software_alone(const Root& root);

// The MTU that RoCE takes on an interface: the largest of 256, 512, ... 4096 that fits with its headers; 0 for none.
unsigned rdma_mtu_on(unsigned interface_mtu);
// The MTU that an interface needs for kRdmaMtuMost.
constexpr unsigned kInterfaceMtuForMost = 4192;

}  // namespace penstock::core
