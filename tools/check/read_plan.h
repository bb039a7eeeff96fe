// SPDX-License-Identifier: Apache-2.0

// Which GPU had best read from which drive: pair by pair, the nearest first. And how fast that would be by the model of
// contention (docs/internals/models.md): links as they could run, and drives as they typically are. Nothing is
// measured.
#pragma once

#include <string>
#include <vector>

#include "tools/check/bus_tree.h"

namespace penstock::tools {

struct PlannedRead {
  std::string gpu, drive;  // PCI addresses.
  std::string relation;    // A core::distance_name().
  int gpu_node = -1;       // The GPU's NUMA node; -1 where it tells none.
  double bytes_per_second = 0;

  // The PENSTOCK_PLACEMENT for the process of this GPU: "node:1". Copied bytes pass host memory once from storage and
  // once to the GPU, which fetches from another node at a greater loss than the drive writes to it.
  std::string placement() const;
};

struct ReadPlan {
  std::vector<PlannedRead> reads;
  double bytes_per_second = 0;    // The sum of all.
  std::string bound_by;           // The busiest part, which holds them back, or "".
  double striped_per_second = 0;  // If every GPU reads from all drives.
  std::vector<std::string> idle;  // Drives that no GPU reads from.
  unsigned left_out = 0;          // GPUs and drives without a known link, and more than 256 of a kind.
  std::string not_made;           // Why there is no plan, or "".

  unsigned crossings() const;  // Reads from one NUMA node to another.
};

// Each drive once while there are enough. The devices: all of the machine, its
// bridges among them.
ReadPlan plan_reads(const std::vector<core::PciDevice>& devices, const std::vector<BusEnd>& ends);

std::string read_plan_text(const ReadPlan& plan, const std::vector<BusEnd>& ends);
Json read_plan_json(const ReadPlan& plan);

}  // namespace penstock::tools
