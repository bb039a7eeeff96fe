// SPDX-License-Identifier: Apache-2.0

#include "model/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/checkpoint_report.h"
#include "model/input.h"
#include "model/storage_choice.h"
#include "model/words.h"

namespace penstock::model {
namespace {

constexpr PathModel kPaths[] = {PathModel::kPoor, PathModel::kBounce, PathModel::kDirect};

void check(const CostInput& input) {
  check(input.job);
  Fleet fleet = input.fleet;
  fleet.ranks = fleet.nodes;  // Each platform has its own.
  check(fleet);
  require_positive("the number of saves", input.saves, 1e9);
  require_positive("the length of the run in hours", input.hours, 1e7);
  require_not_negative("the hours of the set-up", input.setup_hours, 1e6);
  require_not_negative("the money for the set-up", input.setup_money, 1e12);
}

CostRow row_of(const Platform& platform, bool is_spot, PathModel path, const CostInput& input,
               const Constants& constants) {
  CostRow row{&platform, is_spot, path, 0, 0, 0, 0, 0, 0, 0};
  row.node_hour = platform.gpus * (is_spot ? *platform.spot : *platform.on_demand);
  row.compute = std::ceil(input.hours * 3600 / platform.billing_s) * platform.billing_s / 3600 * row.node_hour *
                input.fleet.nodes;
  row.save_s = duration(path, input.job, fleet_of(platform, input), constants).seconds;
  const Waiting waiting = waiting_of(row.save_s, input.saves, row.node_hour * input.fleet.nodes);
  row.waiting_hours = waiting.hours;
  row.waiting = waiting.money;
  row.save = waiting.money / input.saves;
  row.rate_hour = row.node_hour * input.fleet.nodes * row.save_s / (input.job.bytes / 1e9);
  return row;
}

std::string names_of(const std::vector<Platform>& platforms) {
  std::string names;
  for (const Platform& one : platforms) names += (names.empty() ? "" : ", ") + one.name;
  return names;
}

// Says why the sheets that are left have no rows.
void add_absence_notes(const std::vector<Sheet>& sheets, std::vector<std::string>& notes) {
  for (const Sheet& sheet : sheets) {
    if (!sheet.rows.empty()) continue;
    if (sheet.name == "setup") {
      notes.emplace_back(
          "No table tells when the set-up of the direct path has paid: no platform with a price has that path.");
    } else if (sheet.name == "storage_break_even") {
      notes.emplace_back("No table tells from when on drives pay: no platform with a price has drives of its own.");
    }
  }
}

void add_room_notes(const std::vector<CostRow>& rows, const CostInput& input, std::vector<std::string>& notes) {
  for (const CostRow& row : rows) {
    if (row.waiting_hours <= input.hours || row.is_spot) continue;
    notes.push_back(fmt::format("{}, {}: its saves take longer than the run, which has room for {} of them.",
                                row.platform->name, path_model_name(row.path),
                                count_in_words(std::floor(input.hours * 3600 / row.save_s))));
  }
}

Sheet platforms_sheet(const std::vector<Platform>& platforms) {
  Sheet sheet{"platforms",
              "Platforms",
              {{"platform", "platform"},
               {"gpu", "GPU"},
               {"gpus", "GPUs"},
               {"on_demand_money", "$ a GPU-hour"},
               {"spot_money", "spot"},
               {"drives", "drives of its own"},
               {"gds", "GPUDirect Storage"},
               {"source", "source"}},
              {}};
  const auto price = [](const std::optional<double>& one) { return one ? Json(*one) : Json(); };
  for (const Platform& one : platforms) {
    sheet.rows.push_back({one.name, one.gpu, one.gpus, price(one.on_demand), price(one.spot),
                          one.drives ? Json(*one.drives) : Json("not known"), gds_standing_words(one.gds), one.source});
  }
  return sheet;
}

Sheet cost_sheet(const std::vector<CostRow>& rows, const CostInput& input) {
  Sheet sheet{"cost",
              fmt::format("A run of {} h with {} saves, which training waits for", count_in_words(input.hours),
                          count_in_words(input.saves)),
              {{"platform", "platform"},
               {"market", "market"},
               {"path", "path"},
               {"gpu_hour_money", "$ a GPU-hour"},
               {"node_hour_money", "$ a node-hour"},
               {"compute_money", "the run, $"},
               {"save_s", "save, s"},
               {"save_money", "a save, $"},
               {"waiting_share", "of the run, %"},
               {"waiting_hours_in_all", "waiting, h"},
               {"waiting_money", "waiting, $"},
               {"gb_per_s_hour_money", "$ an hour per GB/s"}},
              {},
              false,
              "$ an hour per GB/s: what all nodes cost an hour, by the rate at which they save."};
  for (const CostRow& row : rows) {
    sheet.rows.push_back({row.platform->name, row.is_spot ? "spot" : "on demand", path_model_name(row.path),
                          row.node_hour / row.platform->gpus, row.node_hour, row.compute, row.save_s, row.save,
                          std::round(1000 * row.waiting_hours / input.hours) / 10,
                          std::round(100 * row.waiting_hours) / 100, row.waiting, row.rate_hour});
  }
  return sheet;
}

Sheet month_sheet(const std::vector<CostRow>& rows, const CostInput& input) {
  const double months = kMonthHours / input.hours;
  Sheet sheet{
      "month",
      fmt::format("A month ({} h) of such a run, with {} saves", kMonthHours,
                  count_in_words(std::round(input.saves * months))),
      {{"platform", "platform"},
       {"market", "market"},
       {"path", "path"},
       {"gpu_hours_in_all", "GPU-hours"},
       {"compute_money", "the month, $"},
       {"waiting_gpu_hours_in_all", "waiting, GPU-hours"},
       {"waiting_money", "waiting, $"}},
      {},
      false,
      "waiting: training waits for a save. Those GPU-hours and $ are among the month's, which are all that is paid "
      "for."};
  for (const CostRow& row : rows) {
    const double gpus = row.platform->gpus * input.fleet.nodes;
    sheet.rows.push_back({row.platform->name, row.is_spot ? "spot" : "on demand", path_model_name(row.path),
                          gpus * kMonthHours, kMonthHours * row.node_hour * input.fleet.nodes,
                          gpus * row.waiting_hours * months, row.waiting * months});
  }
  return sheet;
}

double setup_price(const CostRow& direct, const CostInput& input) {
  return input.setup_hours * direct.node_hour * input.fleet.nodes + input.setup_money;
}

std::string unpriced(const std::vector<Platform>& platforms) {
  return fmt::format(
      "No cost can be told, since no price is known of {}. 'penstock-model cost --print-platforms' prints a file for "
      "prices of your own, which --platforms reads.",
      names_of(platforms));
}

// What to do: the cheapest platform, and whether the direct path is worth its set-up there.
std::string answer_of(const std::vector<CostRow>& rows, const CostInput& input) {
  const auto cheapest =
      std::min_element(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.compute < b.compute; });
  const auto waiting = [&](PathModel path) {
    const auto is_it = [&](const CostRow& one) {
      return one.platform == cheapest->platform && one.is_spot == cheapest->is_spot && one.path == path;
    };
    const auto row = std::find_if(rows.begin(), rows.end(), is_it);
    return row == rows.end() ? std::numeric_limits<double>::quiet_NaN() : row->waiting * kMonthHours / input.hours;
  };
  const double direct = waiting(PathModel::kDirect), good = waiting(PathModel::kBounce),
               poor = waiting(PathModel::kPoor);
  std::string text = fmt::format(
      "The cheapest is {} {}, {:.2f} $ a month ({} h). Waiting for saves costs {:.2f} $ of it by a good host path, "
      "{:.2f} $ by a poor one",
      cheapest->platform->name, cheapest->is_spot ? "at spot prices" : "on demand",
      kMonthHours * cheapest->node_hour * input.fleet.nodes, kMonthHours, good, poor);
  const char* const more =
      " Less by any path if training goes on during the save: see 'penstock-model checkpoint'. Which host path a "
      "machine has, 'penstock explain --measure --save SIZE FOLDER' measures there.";
  if (std::isnan(direct)) return text + "; it has no direct path." + more;
  text += fmt::format(", {:.2f} $ by the direct path. ", direct);
  const double saved = good - direct, setup = setup_price(*cheapest, input);
  if (saved > 0 && saved >= setup)
    return text + "Set the direct path up: that pays within a month, whatever the host path." + more;
  return text +
         "Set the direct path up only where the host path is poor: against a good one that does not pay within a "
         "month." +
         more;
}

Sheet setup_sheet(const std::vector<CostRow>& rows, const CostInput& input) {
  Sheet sheet{"setup",
              "From when on the set-up of the direct path has paid",
              {{"platform", "platform"},
               {"market", "market"},
               {"against", "against"},
               {"setup_money", "set-up, $"},
               {"saved_run_money", "saved in this run, $"},
               {"saves", "saves until it has paid"},
               {"hours", "hours of such a run, h"}},
              {}};
  for (const CostRow& direct : rows) {
    if (direct.path != PathModel::kDirect) continue;
    for (const CostRow& host : rows) {
      const bool is_pair = host.platform == direct.platform && host.is_spot == direct.is_spot;
      if (!is_pair || host.path == PathModel::kDirect) continue;
      const double saves = std::ceil(break_even_saves(host, direct, input));
      sheet.rows.push_back({direct.platform->name, direct.is_spot ? "spot" : "on demand", path_model_name(host.path),
                            setup_price(direct, input), host.waiting - direct.waiting,
                            std::isfinite(saves) ? Json(saves) : Json("never"),
                            number(saves / input.saves * input.hours)});
    }
  }
  return sheet;
}

std::vector<std::string> notes_of(const std::vector<Platform>& platforms, const CostInput& input,
                                  const Constants& constants) {
  std::vector<std::string> notes;
  std::vector<Platform> unknown;
  std::ranges::copy_if(platforms, std::back_inserter(unknown), [](const Platform& one) { return !one.drives; });
  if (!unknown.empty()) {
    notes.push_back(
        fmt::format("{}: how many drives a node has of its own is not known; those of --drives are assumed, "
                    "and only a node that has them is worth these figures.",
                    names_of(unknown)));
  }
  for (const Platform& one : platforms) {
    if (!one.on_demand && !one.spot)
      notes.push_back(fmt::format("{}: no price is known, so it has no rows.", one.name));
    if (one.may_go_direct()) continue;
    notes.push_back(fmt::format("{}: no direct path, since it has {}.", one.name,
                                one.drives.value_or(1) == 0 ? "no drives of its own" : "no GPUDirect Storage"));
  }
  notes.push_back(
      fmt::format("All platforms are taken to save with {} through {} drive{} in each node, each at {} in use; they "
                  "differ in their "
                  "GPUs' number and price.",
                  input.job.is_sharded ? "every GPU" : "one GPU of each node", count_in_words(input.fleet.drives),
                  input.fleet.drives == 1 ? "" : "s", rate_in_words(drive_in_use(input.fleet, constants))));
  notes.emplace_back(
      "'poor host' is as slow as the published host path. A good one costs no more than the direct path as long as the "
      "drives bind: see 'penstock-model checkpoint'.");
  return notes;
}

}  // namespace

Fleet fleet_of(const Platform& platform, const CostInput& input) {
  Fleet fleet = input.fleet;
  fleet.ranks = platform.gpus * fleet.nodes;
  return fleet;
}

std::vector<CostRow> cost_rows(const std::vector<Platform>& platforms, const CostInput& input,
                               const Constants& constants) {
  std::vector<CostRow> rows;
  for (const Platform& platform : platforms) {
    for (const bool is_spot : {false, true}) {
      if (!(is_spot ? platform.spot : platform.on_demand)) continue;
      for (const PathModel path : kPaths) {
        if (path == PathModel::kDirect && !platform.may_go_direct()) continue;
        rows.push_back(row_of(platform, is_spot, path, input, constants));
      }
    }
  }
  return rows;
}

double break_even_saves(const CostRow& host, const CostRow& direct, const CostInput& input) {
  const double each = (host.waiting - direct.waiting) / input.saves;
  return each > 0 ? setup_price(direct, input) / each : std::numeric_limits<double>::infinity();
}

Report cost_report(const std::vector<Platform>& platforms, const CostInput& given, const Constants& constants) {
  CostInput input = given;
  input.job = sized(input.job, input.model);
  check(input);
  const std::vector<CostRow> rows = cost_rows(platforms, input, constants);
  std::vector<double> saves_s;
  for (const CostRow& row : rows) saves_s.push_back(row.save_s);
  check_room(input.saves, input.hours, saves_s);
  Report report{"cost", "What a run costs, and what waiting for its checkpoints does"};
  report.answer = rows.empty() ? unpriced(platforms) : answer_of(rows, input);
  report.inputs = inputs_json(input.job, input.model, input.fleet, constants);
  report.inputs.erase("ranks");
  report.inputs["checkpoints"] = input.saves;
  report.inputs["run_hours"] = input.hours;
  report.inputs["setup_hours"] = input.setup_hours;
  report.inputs["setup_money"] = input.setup_money;
  report.sheets = {platforms_sheet(platforms), cost_sheet(rows, input), setup_sheet(rows, input)};
  report.csv_sheet = "cost";
  report.notes = notes_of(platforms, input, constants);
  add_room_notes(rows, input, report.notes);
  if (input.file_system) {
    std::ranges::move(storage_sheets(platforms, input, constants), std::back_inserter(report.sheets));
    std::ranges::move(storage_notes(input), std::back_inserter(report.notes));
    const FileSystem& one = *input.file_system;
    if (one.terabytes > 0) {
      report.inputs["file_system"] = one.name;
      report.inputs["file_system_bytes"] = one.terabytes * 1e12;
      report.inputs["file_system_bytes_per_s"] = one.bytes_per_s;
    } else {
      report.inputs["offered_bytes_per_s"] = one.bytes_per_s;
      if (one.read_bytes_per_s > 0) report.inputs["offered_read_bytes_per_s"] = one.read_bytes_per_s;
      report.inputs["offered_month_money"] = one.month_money;
    }
    if (!rows.empty()) report.answer = storage_answer(platforms, input, constants) + " " + report.answer;
  }
  report.sheets.push_back(month_sheet(rows, input));
  add_absence_notes(report.sheets, report.notes);
  if (rows.empty()) report.notes.clear();  // They are on rows, and the answer says why there is none.
  const auto direct = std::find_if(rows.begin(), rows.end(),
                                   [](const CostRow& row) { return row.path == PathModel::kDirect && !row.is_spot; });
  if (direct == rows.end()) return report;
  const auto add = [&](const std::string& result, double CostRow::*figure) {
    report.sensitivities.push_back(sensitivity_of(result, constants, [&](const Constants& c) {
      return row_of(*direct->platform, false, PathModel::kDirect, input, c).*figure;
    }));
  };
  add("save, direct, s", &CostRow::save_s);
  const std::string at =
      fmt::format("on {}, direct, at {} $ a GPU-hour, $", direct->platform->name, *direct->platform->on_demand);
  add("a save " + at, &CostRow::save);
  add("waiting " + at, &CostRow::waiting);
  return report;
}

}  // namespace penstock::model
