// SPDX-License-Identifier: Apache-2.0

// Tells which network adapters are nearest to a GPU or drive on the bus. Pure; the results point into the machine.
#pragma once

#include <string>
#include <vector>

#include "facts/machine.h"
#include "topology/distance.h"

namespace penstock::facts {

struct Adapter {
  const core::PciDevice* device = nullptr;
  std::string name;  // "mlx5_0"
};

struct NearAdapters {
  const core::PciDevice* of = nullptr;
  std::vector<std::string> names;  // All that are equally near; empty if there is no adapter.
  core::Distance distance = core::Distance::unknown;
};
NearAdapters nearest_to(const core::PciDevice& of, const std::vector<Adapter>& adapters);

// Names the RDMA devices that are nearest to each GPU and NVMe drive, in the order of the bus; nothing without any.
std::vector<NearAdapters> nearest_adapters(const Machine& machine);

}  // namespace penstock::facts
