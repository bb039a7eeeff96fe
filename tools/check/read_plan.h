// SPDX-License-Identifier: Apache-2.0

// Plans which GPU had best read from which drive: pair by pair, the nearest first. Also says how fast that would be by
// the model of contention (docs/internals/models.md), with links at full speed and typical drives. It measures nothing.
#pragma once

#include <string>
#include <vector>

#include "tools/check/bus_tree.h"

namespace penstock::tools {

struct PlannedRead {
  std::string gpu, drive;  // PCI addresses.
  std::string relation;    // A core::distance_name().
  int gpu_node = -1;       // The GPU's NUMA node; -1 if the kernel reports none.
  double bytes_per_second = 0;

  // The PENSTOCK_PLACEMENT for the process of this GPU: "node:1". Copied bytes pass through host memory, once from
  // storage and once to the GPU. A GPU loses more by reading from another node's memory than a drive does by writing to
  // it.
  std::string placement() const;
};

struct ReadPlan {
  std::vector<PlannedRead> reads;
  double bytes_per_second = 0;    // The sum of all reads.
  std::string bound_by;           // The busiest part, which limits the reads, or "".
  double striped_per_second = 0;  // If every GPU reads from all drives.
  std::vector<std::string> idle;  // Drives that no GPU reads from.
  unsigned left_out = 0;          // GPUs and drives without a known link, and those beyond 256 of a kind.
  std::string not_made;           // The reason why there is no plan, or "".

  unsigned crossings() const;  // Reads from one NUMA node to another.
};

// Plans the reads; takes each drive once as long as there are enough. `devices` are all PCI devices of the machine,
// with its bridges.
ReadPlan plan_reads(const std::vector<core::PciDevice>& devices, const std::vector<BusEnd>& ends);

std::string read_plan_text(const ReadPlan& plan, const std::vector<BusEnd>& ends);
Json read_plan_json(const ReadPlan& plan);

}  // namespace penstock::tools
