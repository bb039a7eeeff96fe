// SPDX-License-Identifier: Apache-2.0

// Every pair of device memory and file system, and what stands between the two. Pure; the pairs point into the machine.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "facts/machine.h"
#include "topology/obstacle.h"

namespace penstock::facts {

struct PeerPair {
  const core::PciDevice* peer = nullptr;
  const core::FileSystem* file_system = nullptr;
  core::Findings findings;        // Kernel, device, mount, block devices, bus.
  core::Findings write_findings;  // Obstacles to writes besides.
  unsigned distance = 0;          // The farthest drive's under it, in steps over the bus; for comparing alone.

  bool can_read() const { return core::first_stop(findings) == nullptr; }
  bool can_write() const { return can_read() && core::first_stop(write_findings) == nullptr; }
};

// Device by device, then in the order of mounting.
std::vector<PeerPair> peer_pairs(const Machine& machine);
// Where the least stands in the way, the nearest of these, of all or of one file system; null where there are none.
const PeerPair* best_pair(std::span<const PeerPair> pairs, const core::FileSystem* place = nullptr);

std::string peer_text(const core::PciDevice& peer);  // "GPU 0000:18:00.0"
std::string pair_text(const PeerPair& pair);         // "GPU 0000:18:00.0 and /data"

}  // namespace penstock::facts
