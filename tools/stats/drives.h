// SPDX-License-Identifier: Apache-2.0

// The load of the drives between two looks at the kernel's counters, by all programs, reads and writes. It tells bytes
// of the page cache from bytes of a drive.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "topology/root.h"

namespace penstock::tools {

// Counters of a drive since it was found (Documentation/block/stat.rst of Linux).
struct DriveCount {
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t busy_ms = 0;  // Time with requests in flight.
};
using DriveCounts = std::map<std::string, DriveCount>;  // By the kernel's names, as nvme0n1.

// Reads the counters of drives only: loop devices, arrays and mappings move the bytes of the drives below them.
DriveCounts read_drives(const core::Root& root);

struct DriveRate {
  std::string name;
  double read = 0, written = 0;  // Bytes a second.
  double busy = 0;               // The part of the time, 0 to 1.
};

class DriveRates {
 public:
  // The rates since the look before, `seconds` ago, the busiest first. Nothing at the first look, and nothing for a
  // drive that was idle.
  std::vector<DriveRate> add(DriveCounts counts, double seconds);

 private:
  DriveCounts before_;
  bool is_first_ = true;
};

}  // namespace penstock::tools
