// SPDX-License-Identifier: Apache-2.0

// Judges if bytes can go directly between a device's memory and a block device, as far as /proc and /sys show: kernel,
// device, driver, the route over the bus, and every block device under the storage.
//
// For p2pdma's verdict and `penstock check`. Read the machine once, then ask for any number of pairs. It follows the
// rules of the kernel's P2PDMA code, opens no device and allocates none of a device's memory; only a self-test proves a
// pair.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/block_device.h"
#include "topology/mounts.h"
#include "topology/obstacle.h"
#include "topology/pci_device.h"
#include "topology/platform.h"
#include "topology/root.h"

namespace penstock::core {

// The facts that every pair shares. Reading them takes up to tens of milliseconds (see kernel_has_p2pdma).
struct PeerMachine {
  Platform platform;
  Tristate p2pdma = Tristate::unknown;
  NvidiaDriver nvidia;
  Iommu iommu;
  std::vector<PciDevice> pci;  // Sorted by address.
  MountTable mounts;
  bool has_rdma_of_software_alone = false;

  const PciDevice* device(std::string_view pci_address) const;
  // GPUs, and other devices that offer memory (p2pmem): controller memory buffers, test devices.
  std::vector<const PciDevice*> peers() const;
};
PeerMachine read_peer_machine(const Root& root);
// For a caller that has asked kernel_has_p2pdma() itself.
PeerMachine read_peer_machine(const Root& root, Tristate p2pdma);

// The parts of a route, each alone; an empty list if there is no obstacle.
Findings kernel_findings(const PeerMachine& machine);
Findings peer_findings(const PeerMachine& machine, std::string_view peer);
// Judges for each leg of the stack if its queue accepts device pages. Names every leg that does not.
Findings storage_findings(const PeerMachine& machine, const BlockDevice& storage);
// Judges the route over the bus, for each leg.
Findings bus_findings(const PeerMachine& machine, std::string_view peer, const BlockDevice& storage);

// True if the machine has drives on its PCI bus, and not one of them has a way to the peer.
bool has_no_way_to_drives(const PeerMachine& machine, std::string_view peer);

struct PeerRoute {
  std::string peer;                  // PCI address.
  std::optional<BlockDevice> stack;  // Nothing if /sys does not know the storage.
  Findings findings;                 // In the order kernel, peer, storage, bus.

  bool is_possible() const { return first_stop(findings) == nullptr; }
};
// `storage` is st_dev of a file on a plain file system, st_rdev of a block device, or DirectFileReport::storage.
PeerRoute peer_route(const Root& root, const PeerMachine& machine, std::string_view peer, DeviceNumber storage);

}  // namespace penstock::core
