// SPDX-License-Identifier: Apache-2.0

// Warns that a result may mean something else than it seems to: one number for page cache and drive together, requests
// that no drive can serve as they are, a wide interval. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/settings.h"
#include "tools/common/interval.h"

namespace penstock::tools {

struct Evidence {
  std::uint64_t bytes = 0;                   // All bytes that were moved.
  std::uint64_t direct_bytes = 0;            // The bytes that went around the page cache.
  std::uint64_t cached_bytes = 0;            // The bytes that went through it.
  std::optional<std::uint64_t> drive_bytes;  // Bytes fetched from drives.
  std::uint64_t block_count = 0;             // Blocks in the range.
  std::uint32_t direct_align = 0;            // The unit of offsets and sizes in direct I/O; 0: there is no direct I/O.
  std::string not_direct;                    // Why this file has no direct I/O, or "".
  std::string other_for_cufile;              // Process::other_for_cufile(), or "".
  double share_of_others = 0;                // The part of the processors that other programs had.
  double harm_by_others = 0;                 // The part of it that may have cost this measurement.
  Estimate estimate;
};

struct Warning {
  const char* name;  // Stable, for programs that read it.
  std::string sentence;
};
std::vector<Warning> warnings_of(const BenchSettings& settings, const Evidence& evidence);

}  // namespace penstock::tools
