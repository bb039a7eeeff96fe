// SPDX-License-Identifier: Apache-2.0

// Reads the statistics segment behind a descriptor in /proc/PID/fd, without trusting the process that made it. It is
// read, never mapped: a mapping would turn holes in a stranger's file into memory. For process_stats.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "base/unique_fd.h"
#include "stats/look_budget.h"
#include "stats/reader.h"

namespace penstock::core {

// The kind of file behind a name in /proc/PID/fd. We may open the folder of a process with our user even if its
// capabilities forbid us its descriptors.
enum class Descriptor { segment, other, forbidden };
Descriptor descriptor_of(int folder, const char* name);

class SegmentReader {
 public:
  // An open segment and its owner, before the rest is read.
  struct Opened {
    UniqueFd fd;
    std::uint64_t id = 0;
    std::size_t size = 0;
    std::int64_t pid = 0;
  };
  // Fails with `limit` if the budget is used up, with `bad_setting` if the file is no segment.
  Result<Opened> open(int folder, const char* name, LookBudget& budget);
  Result<StatsSnapshot> read(const Opened& opened, LookBudget& budget);

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  std::unique_ptr<Line[]> buffer_;  // Has room for the largest segment; allocated when first used.
};

}  // namespace penstock::core
