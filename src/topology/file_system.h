// SPDX-License-Identifier: Apache-2.0

// The file systems that a process sees, each once, with the block devices under them and what they support.
//
// For `penstock check`: an overview by the type of each file system. A single file can still differ (encrypted,
// compressed, inline), so a path asks statx about the file itself before it does direct I/O.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/block_device.h"
#include "topology/mounts.h"
#include "topology/obstacle.h"
#include "topology/peer_route.h"
#include "topology/root.h"
#include "topology/tristate.h"

namespace penstock::core {

struct Ability {
  Tristate has = Tristate::unknown;
  const char* code = "";     // The code of the obstacle: "memory", "device_mapper", ...; "" if there is none.
  const char* because = "";  // The sentence of the obstacle.
};

struct FileSystem {
  Mount mount;  // One of its mounts: preferably of the whole file system and not of a part; then the shortest path.
  unsigned more_mounts = 0;          // The number of its other mounts.
  std::optional<BlockDevice> stack;  // Nothing for memory and network file systems, and if it cannot be seen.
  Ability direct_io;                 // True if O_DIRECT bypasses the page cache.
  Ability device_pages;              // True if O_DIRECT accepts peer-to-peer device pages, wherever their device is.
  Findings findings;                 // Obstacles to these two: the mount's come first, then the block devices'.
  Findings write_findings;           // Further obstacles, to writes alone.
};

// In the order of mounting, without pseudo file systems.
std::vector<FileSystem> read_file_systems(const Root& root, const PeerMachine& machine);

}  // namespace penstock::core
