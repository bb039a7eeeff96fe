// SPDX-License-Identifier: Apache-2.0

// What a run and its checkpoints cost on machines that are let by the hour: with the published host path, with a good
// one and with the direct one, on demand and at spot prices; and from how many saves on the direct path's set-up has
// paid. Training waits for its saves; failures are checkpoint_report's. Pure.
#pragma once

#include <optional>
#include <vector>

#include "model/checkpoint.h"
#include "model/platform_file.h"
#include "model/report.h"
#include "model/waiting.h"

namespace penstock::model {

struct CostInput {
  double bytes = 140e9;
  double saves = 1000;
  double hours = 168;  // Of the run, saves included.
  double nodes = 1;    // All alike.
  double drives = 1;   // Of a node; the published table has one of the fourth generation.
  double drive_bytes_per_s = 7e9;
  bool is_sharded = false;                // Every GPU saves its part; else one saves all, as published.
  double setup_hours = 2;                 // That each node is paid for while the direct path is set up on it.
  double setup_money = 0;                 // And what else that costs.
  std::optional<FileSystem> file_system;  // That the nodes share: storage_choice.h sets it against their drives.
};
Fleet fleet_of(const Platform& platform, const CostInput& input);

// The money of a whole run, of the hours that it waits, and what the direct path saves of that.
struct CostRow {
  const Platform* platform;
  bool is_spot;
  PathModel path;
  double node_hour;  // $
  double compute;    // $, of the run.
  double save_s;
  double waiting_hours;
  double waiting;  // $
};
std::vector<CostRow> cost_rows(const std::vector<Platform>& platforms, const CostInput& input,
                               const Constants& constants);

// Saves until what `direct` saves against `host` has paid for the set-up; infinity where it never does.
double break_even_saves(const CostRow& host, const CostRow& direct, const CostInput& input);

Report cost_report(const std::vector<Platform>& platforms, const CostInput& input, const Constants& constants);

}  // namespace penstock::model
