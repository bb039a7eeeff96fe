// SPDX-License-Identifier: Apache-2.0

// How busy the drives are, from one look at the kernel's counters to the next: by all programs, whatever reads or
// writes. It tells bytes that came out of the page cache from those of a drive.
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
  std::uint64_t busy_ms = 0;  // With requests under way.
};
using DriveCounts = std::map<std::string, DriveCount>;  // By the kernel's names, as nvme0n1.

// Only of drives: not of loop devices, arrays and mappings, whose bytes are those of the drives below.
DriveCounts read_drives(const core::Root& root);

struct DriveRate {
  std::string name;
  double read = 0, written = 0;  // Bytes a second.
  double busy = 0;               // Of 1.
};

class DriveRates {
 public:
  // Since the look before, which was `seconds` ago, the busiest first; nothing at the first one, and nothing of a drive
  // that did nothing.
  std::vector<DriveRate> add(DriveCounts counts, double seconds);

 private:
  DriveCounts before_;
  bool is_first_ = true;
};

}  // namespace penstock::tools
