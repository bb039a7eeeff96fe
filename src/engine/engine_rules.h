// SPDX-License-Identifier: Apache-2.0

// The part of the configuration that the engine goes by. Values only.
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
  std::optional<PathId> require;  // Any other path refuses.
  DirectIo direct_io = DirectIo::automatic;
  bool cached_unaligned_writes = false;      // Through the page cache as a whole, not their ends alone.
  std::uint64_t bounce_bytes = 0;            // Pinned host memory a device, at most.
  std::uint64_t chunk_bytes = 0;             // One storage operation of a large request, at most.
  std::uint64_t operation_max = UINT64_MAX;  // Bytes of one storage operation, whatever its request.
  unsigned workers = 0;                      // Threads for large requests.
  unsigned threads_max = UINT_MAX;           // Threads on one request, its caller's included; 1 or more.
  std::uint64_t share_min = 0;               // Bytes for each of these threads.
  double cpu_weight = 0.1;                   // Seconds of waiting that a CPU second is worth.
  const char* policy = "";                   // The policy's name.
  bool looks_out = false;                    // Threads look for work, for microseconds, before they go to sleep.
  Placement placement;                       // For threads and pinned memory.
};

}  // namespace penstock::core
