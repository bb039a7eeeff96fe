// SPDX-License-Identifier: Apache-2.0

// Why a result may not be what it is taken for: the page cache and the drive in one number, requests that no drive can
// serve as they are, an interval that is wide. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/settings.h"
#include "tools/common/interval.h"

namespace penstock::tools {

struct Evidence {
  std::uint64_t bytes = 0;                   // Moved.
  std::uint64_t direct_bytes = 0;            // The part around the page cache,
  std::uint64_t cached_bytes = 0;            // and through it.
  std::optional<std::uint64_t> drive_bytes;  // Fetched from drives.
  std::uint64_t block_count = 0;             // The range's.
  std::uint32_t direct_align = 0;            // The unit of offsets and sizes in direct I/O; 0: there is none.
  std::string not_direct;                    // Why direct I/O is none on this file, or "".
  double share_of_others = 0;                // Other programs' part of the processors,
  double harm_by_others = 0;                 // and how much of that the measurement may have missed.
  Estimate estimate;
};

struct Warning {
  const char* name;  // Stable, for programs.
  std::string sentence;
};
std::vector<Warning> warnings_of(const BenchSettings& settings, const Evidence& evidence);

}  // namespace penstock::tools
