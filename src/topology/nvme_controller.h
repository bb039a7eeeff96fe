// SPDX-License-Identifier: Apache-2.0

// The NVMe controllers of a machine, from /sys/class/nvme: local drives', and those of targets over a network, whether
// something is mounted from them or not.
#pragma once

#include <string>
#include <vector>

#include "topology/block_device.h"
#include "topology/root.h"

namespace penstock::core {

struct NvmeController {
  std::string name;  // "nvme0"
  NvmeTransport transport = NvmeTransport::unknown;
  std::string state;      // "live", "connecting", "deleting", ...; "" where unknown.
  std::string address;    // A target's: "traddr=10.0.0.1,trsvcid=4420".
  std::string subsystem;  // Its NQN; "" where unknown.

  bool is_remote() const { return transport != NvmeTransport::pcie && transport != NvmeTransport::loop; }
};

std::vector<NvmeController> read_nvme_controllers(const Root& root);

}  // namespace penstock::core
