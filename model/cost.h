// SPDX-License-Identifier: Apache-2.0

// The cost of a run and its checkpoints on machines rented by the hour: with the published host path, a good host path
// and the direct path, on demand and at spot prices; and after how many saves the direct path's set-up has paid off.
// Training waits for its saves; checkpoint_report models failures. Pure.
#pragma once

#include <optional>
#include <vector>

#include "model/checkpoint.h"
#include "model/platform_file.h"
#include "model/report.h"
#include "model/waiting.h"

namespace penstock::model {

struct CostInput {
  Job job{.bytes = 140e9};
  ModelSize model;  // The job's bytes come from it if it has parameters.
  Fleet fleet;      // Its ranks are not read: each platform has its own GPUs.
  double saves = 1000;
  double hours = 168;                     // Hours of the run, saves included.
  double setup_hours = 2;                 // Paid hours per node to set up the direct path.
  double setup_money = 0;                 // Other cost of the set-up.
  std::optional<FileSystem> file_system;  // Shared by the nodes; storage_choice.h compares it with their drives.
};
Fleet fleet_of(const Platform& platform, const CostInput& input);

// The cost of a whole run and of its waiting hours, and what the direct path saves.
struct CostRow {
  const Platform* platform;
  bool is_spot;
  PathModel path;
  double node_hour;  // $
  double compute;    // $ for the run.
  double save_s;
  double waiting_hours;
  double waiting;    // $
  double save;       // $ of one save.
  double rate_hour;  // $ an hour of all nodes, for each GB/s at which they save.
};
std::vector<CostRow> cost_rows(const std::vector<Platform>& platforms, const CostInput& input,
                               const Constants& constants);

// After how many saves the gain of `direct` over `host` has paid for the set-up; infinity if never.
double break_even_saves(const CostRow& host, const CostRow& direct, const CostInput& input);

Report cost_report(const std::vector<Platform>& platforms, const CostInput& input, const Constants& constants);

}  // namespace penstock::model
