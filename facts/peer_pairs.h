// SPDX-License-Identifier: Apache-2.0

// Every pair of a device's memory and a file system, and the obstacles between the two. Pure; the pairs point into the
// machine.
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
  core::Findings findings;        // Obstacles in kernel, device, mount, block devices and bus.
  core::Findings write_findings;  // Further obstacles, to writes alone.
  unsigned distance = 0;          // Steps over the bus to the farthest drive under it; only good for comparing.

  bool can_read() const { return core::first_stop(findings) == nullptr; }
  bool can_write() const { return can_read() && core::first_stop(write_findings) == nullptr; }
};

// The pairs device by device, each device's in the order of mounting.
std::vector<PeerPair> peer_pairs(const Machine& machine);
// The pair with the least in the way, of equal ones the nearest. Looks at all pairs, or at those of one file system.
// Null if there is none.
const PeerPair* best_pair(std::span<const PeerPair> pairs, const core::FileSystem* place = nullptr);

std::string peer_text(const core::PciDevice& peer);  // "GPU 0000:18:00.0"
std::string pair_text(const PeerPair& pair);         // "GPU 0000:18:00.0 and /data"

}  // namespace penstock::facts
