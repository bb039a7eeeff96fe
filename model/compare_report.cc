// SPDX-License-Identifier: Apache-2.0

#include "model/compare_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace penstock::model {
namespace {

Sheet rows_sheet(std::span<const GroupComparison> groups) {
  Sheet sheet{"points",
              "Predicted beside measured",
              {{"group", "group"},
               {"block_bytes", "block, B"},
               {"threads", "threads"},
               {"depth", "depth"},
               {"measured_gb_per_s", "measured, GB/s"},
               {"predicted_gb_per_s", "predicted, GB/s"},
               {"error", "error, %"},
               {"part", "calibration"}},
              {}};
  for (const GroupComparison& group : groups) {
    for (const Comparison& row : group.rows) {
      sheet.rows.push_back({group.group, row.measured.block_bytes, row.measured.threads, row.measured.depth,
                            row.measured.bytes_per_s / 1e9, number(row.predicted_bytes_per_s / 1e9),
                            number(100 * row.error()), row.was_held_out ? "held out" : "used"});
    }
  }
  return sheet;
}

Sheet models_sheet(std::span<const GroupComparison> groups) {
  Sheet sheet{"models",
              "What the calibration found",
              {{"group", "group"},
               {"points", "points"},
               {"latency_s", "latency, s"},
               {"stream_gb_per_s", "one in flight, GB/s"},
               {"gap_s", "between blocks, s"},
               {"ceiling_gb_per_s", "ceiling, GB/s"}},
              {}};
  for (const GroupComparison& group : groups) {
    const auto used =
        std::count_if(group.rows.begin(), group.rows.end(), [](const Comparison& row) { return !row.was_held_out; });
    sheet.rows.push_back({group.group, used, number(group.model.latency_s),
                          number(group.model.stream_bytes_per_s / 1e9), number(group.model.gap_s),
                          number(group.model.ceiling_bytes_per_s / 1e9)});
  }
  return sheet;
}

Sheet errors_sheet(std::span<const GroupComparison> groups) {
  Sheet sheet{"errors", "Errors", {{"part", "points"}, {"median", "median, %"}, {"largest", "largest, %"}}, {}};
  for (const bool held_out : {false, true}) {
    sheet.rows.push_back({held_out ? "held out" : "used to calibrate", number(100 * median_error(groups, held_out)),
                          number(100 * largest_error(groups, held_out))});
  }
  return sheet;
}

}  // namespace

Report compare_report(std::span<const GroupComparison> groups, unsigned hold_out) {
  Report report{"compare", "Predicted beside measured"};
  report.inputs = {{"hold_out_every", hold_out}};
  report.sheets = {rows_sheet(groups), models_sheet(groups), errors_sheet(groups)};
  for (const GroupComparison& group : groups) {
    const auto used =
        std::count_if(group.rows.begin(), group.rows.end(), [](const Comparison& row) { return !row.was_held_out; });
    if (used >= 4) continue;
    report.notes.push_back(
        fmt::format("'{}' was calibrated by {} point{}; the model has four numbers, so some of them "
                    "are guesses. Vary block size, threads and depth.",
                    group.group, used, used == 1 ? "" : "s"));
  }
  return report;
}

double measured_ceiling(std::span<const GroupComparison> groups, std::string_view operation) {
  double most = 0;
  for (const GroupComparison& group : groups) {
    if (group.rows.front().measured.operation == operation) most = std::max(most, group.model.ceiling_bytes_per_s);
  }
  return most;
}

}  // namespace penstock::model
