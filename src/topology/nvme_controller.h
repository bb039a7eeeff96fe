// SPDX-License-Identifier: Apache-2.0

// The NVMe controllers of a machine, from /sys/class/nvme: local drives' and network targets', mounted or not.
#pragma once

#include <string>
#include <vector>

#include "topology/block_device.h"
#include "topology/root.h"

namespace penstock::core {

struct NvmeController {
  std::string name;  // "nvme0"
  NvmeTransport transport = NvmeTransport::unknown;
  std::string state;      // "live", "connecting", "deleting", ...; "" if unknown.
  std::string address;    // The address of a target: "traddr=10.0.0.1,trsvcid=4420".
  std::string subsystem;  // Its NQN; "" if unknown.

  bool is_remote() const { return transport != NvmeTransport::pcie && transport != NvmeTransport::loop; }
};

std::vector<NvmeController> read_nvme_controllers(const Root& root);

}  // namespace penstock::core
