// SPDX-License-Identifier: Apache-2.0

// The part of the configuration that the engine uses. Values only.
#pragma once

#include <climits>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/paths.h"
#include "device/placement.h"

namespace penstock::core {

enum class DirectIo : std::uint8_t { automatic, always, never };

struct EngineRules {
  std::vector<PathId> paths;      // Best first.
  std::optional<PathId> require;  // All other paths refuse.
  DirectIo direct_io = DirectIo::automatic;
  bool cached_unaligned_writes = false;      // Writes the whole request through the page cache, not only its ends.
  std::uint64_t bounce_bytes = 0;            // The most pinned host memory for each device.
  std::uint64_t chunk_bytes = 0;             // The most bytes of one storage operation of a large request.
  std::uint64_t operation_max = UINT64_MAX;  // The most bytes of one storage operation of any request.
  unsigned workers = 0;                      // Threads for large requests.
  unsigned threads_max = UINT_MAX;           // The most threads for one request, counting its caller's; 1 or more.
  std::uint64_t share_min = 0;               // The least bytes for each of these threads.
  double cpu_weight = 0.1;                   // Seconds of waiting that a CPU second is worth.
  const char* policy = "";                   // The policy's name.
  bool threads_spin = false;                 // Threads look for work for some microseconds before they sleep.
  Placement placement;                       // For threads and pinned memory.
};

}  // namespace penstock::core
