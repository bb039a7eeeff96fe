// SPDX-License-Identifier: Apache-2.0

#include "model/checkpoint_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "model/input.h"
#include "model/published.h"
#include "model/waiting.h"
#include "model/words.h"

namespace penstock::model {
namespace {

using enum Constant;

// Computes the size, and checks everything.
CheckpointInput settled(CheckpointInput input) {
  input.job = sized(input.job, input.model);
  check(input.job);
  check(input.fleet);
  require_not_negative("the number of checkpoints", input.checkpoints, 1e9);
  require_not_negative("the time between failures in hours", input.mtbf_hours, 1e9);
  require_not_negative("the window in s", input.window_s, 1e9);
  return input;
}

std::vector<PathModel> paths_of(const CheckpointInput& input) {
  std::vector<PathModel> paths = {PathModel::kDirect, PathModel::kBounce, PathModel::kSerial, PathModel::kPoor};
  if (input.fleet.measured_bytes_per_s > 0) paths.push_back(PathModel::kMeasured);
  return paths;
}

// Names the paths that have no room for the checkpoints, and how many they do.
void add_room_notes(const CheckpointInput& input, const Constants& constants, std::vector<std::string>& notes) {
  const double run_s = input.run_hours * 3600;
  for (const PathModel path : paths_of(input)) {
    const double save_s = duration(path, input.job, input.fleet, constants).seconds;
    if (input.checkpoints * save_s <= run_s) continue;
    notes.push_back(fmt::format("'{}' has no room for {} checkpoints: it saves without a pause, {} times.",
                                path_model_name(path), count_in_words(input.checkpoints),
                                count_in_words(std::floor(run_s / save_s))));
  }
}

Job load_of(Job job) {
  job.is_load = true;
  return job;
}

double load_s(PathModel path, const CheckpointInput& input, const Constants& constants) {
  Fleet fleet = input.fleet;
  if (input.load_measured_bytes_per_s > 0) fleet.measured_bytes_per_s = input.load_measured_bytes_per_s;
  return duration(path, load_of(input.job), fleet, constants).seconds;
}

Training run_of(PathModel path, bool is_overlapped, const CheckpointInput& input, const Constants& constants) {
  Training run;
  run.hours = input.run_hours;
  run.failure_s = input.mtbf_hours > 0 ? input.mtbf_hours * 3600 : failure_s(input.fleet.ranks, constants);
  run.save_s = duration(path, input.job, input.fleet, constants).seconds;
  run.stall_s = is_overlapped ? std::min(run.save_s, snapshot_s(input.job, input.fleet, constants)) : run.save_s;
  run.recovery_s = input.restart_s + load_s(path, input, constants);
  run.period_s = input.checkpoints > 0 ? input.run_hours * 3600 / input.checkpoints : 0;
  run.gpus = input.fleet.ranks;
  run.gpu_hour_price = constants[kGpuHourPrice];
  check(run);
  return run;
}

// The price of all GPUs for so long.
double money_of(double seconds, const CheckpointInput& input, const Constants& constants) {
  return seconds / 3600 * input.fleet.ranks * constants[kGpuHourPrice];
}

Sheet times_sheet(const CheckpointInput& input, const Constants& constants) {
  Sheet sheet{"times",
              input.job.is_load ? "One load" : "One checkpoint",
              {{"path", "path"},
               {"seconds", input.job.is_load ? "load, s" : "save, s"},
               {"gb_per_s", "GB/s, all nodes"},
               {"binds", "what binds"},
               {"times_direct", "times direct"},
               {"gpus_money", "all GPUs meanwhile, $"}},
              {}};
  const double direct_s = duration(PathModel::kDirect, input.job, input.fleet, constants).seconds;
  const double copies = input.job.is_replicated ? input.fleet.ranks : 1;
  std::vector<PathModel> paths = paths_of(input);
  if (!input.job.is_load) paths.push_back(PathModel::kTorchSave);
  for (const PathModel path : paths) {
    const Duration one = duration(path, input.job, input.fleet, constants);
    sheet.rows.push_back({path_model_name(path), number(one.seconds),
                          number(copies * input.job.bytes / one.seconds / 1e9), one.binds,
                          number(one.seconds / direct_s), number(money_of(one.seconds, input, constants))});
  }
  return sheet;
}

Sheet run_sheet(const CheckpointInput& input, const Constants& constants) {
  Sheet sheet{"run",
              fmt::format("A run of {} h", count_in_words(input.run_hours)),
              {{"path", "path"},
               {"mode", "training"},
               {"stall_s", "stall, s"},
               {"recovery_s", "recovery, s"},
               {"young_daly_s", "Young/Daly, s"},
               {"best_s", "best, s"},
               {"interval_s", "used, s"},
               {"goodput", "goodput"},
               {"stall_hours", "stalled, h"},
               {"rework_hours", "redone, h"},
               {"recovery_hours", "recovering, h"},
               {"lost_hours", "lost, h"},
               {"money", "lost, $"}},
              {}};
  for (const PathModel path : paths_of(input)) {
    for (const bool is_overlapped : {false, true}) {
      const Training run = run_of(path, is_overlapped, input, constants);
      const Losses lost = losses(run);
      sheet.rows.push_back({path_model_name(path), is_overlapped ? "goes on" : "waits", run.stall_s, run.recovery_s,
                            young_daly_s(run.stall_s, run.failure_s), best_period_s(run), lost.period_s, lost.goodput,
                            lost.stall_hours, lost.rework_hours, lost.recovery_hours, lost.hours(), lost.money});
    }
  }
  return sheet;
}

Sheet month_sheet(const CheckpointInput& input, const Constants& constants) {
  Sheet sheet{
      "month",
      fmt::format("Lost in a month ({} h) of such a run, of {} GPU-hours", kMonthHours,
                  count_in_words(kMonthHours * input.fleet.ranks)),
      {{"path", "path"},
       {"mode", "training"},
       {"checkpoints", "checkpoints"},
       {"gpu_hours_in_all", "GPU-hours"},
       {"money", "$"}},
      {},
      false,
      "A row is a path, and what training does during a save: it 'waits' for the end, or 'goes on' once the state "
      "is copied out of its way. In these GPU-hours nothing new is trained: GPUs stand still for saves, do again "
      "what a failure undid, or load."};
  for (const PathModel path : paths_of(input)) {
    for (const bool is_overlapped : {false, true}) {
      const Losses lost = losses(run_of(path, is_overlapped, input, constants));
      const double months = kMonthHours / input.run_hours;
      sheet.rows.push_back({path_model_name(path), is_overlapped ? "goes on" : "waits",
                            std::round(kMonthHours * 3600 / lost.period_s), months * lost.hours() * input.fleet.ranks,
                            months * lost.money});
    }
  }
  return sheet;
}

// What to do: the row of the month that loses least, beside what the others lose.
std::string answer_of(const CheckpointInput& input, const Constants& constants) {
  const auto lost = [&](PathModel path, bool is_overlapped) {
    return kMonthHours / input.run_hours * losses(run_of(path, is_overlapped, input, constants)).money;
  };
  const Training run = run_of(PathModel::kDirect, true, input, constants);
  const double used_s = losses(run).period_s, best_s = best_period_s(run);
  return fmt::format(
      "Let training go on while it saves, every {}{}: that loses {:.2f} $ a month ({} h); where training waits for "
      "each save, it loses {:.2f} $ by the direct path, and {:.2f} $ by a poor host path.",
      time_in_words(used_s), used_s == best_s ? "" : fmt::format(" (best: every {})", time_in_words(best_s)),
      lost(PathModel::kDirect, true), kMonthHours, lost(PathModel::kDirect, false), lost(PathModel::kPoor, false));
}

Sheet window_sheet(const CheckpointInput& input, const Constants& constants) {
  Sheet sheet{"window",
              fmt::format("Within a window of {} s", count_in_words(input.window_s)),
              {{"path", "path"},
               {"seconds", "save, s"},
               {"fits", "fits"},
               {"largest_bytes", "largest state that fits, B"},
               {"drives_needed", "drives it takes in each node"},
               {"seconds_with_them", "with them, s"}},
              {}};
  for (const PathModel path : paths_of(input)) {
    const double seconds = duration(path, input.job, input.fleet, constants).seconds;
    const double needed = drives_within(path, input.job, input.fleet, constants, input.window_s);
    Fleet enough = input.fleet;
    enough.drives = needed;
    sheet.rows.push_back({path_model_name(path), seconds, seconds <= input.window_s,
                          std::floor(bytes_within(path, input.job, input.fleet, constants, input.window_s)),
                          needed > 0 ? Json(needed) : Json("never enough"),
                          needed > 0 ? number(duration(path, input.job, enough, constants).seconds) : Json()});
  }
  return sheet;
}

std::string window_answer(const CheckpointInput& input, const Constants& constants) {
  const double seconds = duration(PathModel::kDirect, input.job, input.fleet, constants).seconds;
  const double needed = drives_within(PathModel::kDirect, input.job, input.fleet, constants, input.window_s);
  return fmt::format(
      "Direct, {} take {} with {} drive{} a node: {} the window of {} s. Up to {} fit; {}.",
      size_in_words(input.job.bytes), time_in_words(seconds), count_in_words(input.fleet.drives),
      input.fleet.drives == 1 ? "" : "s", seconds <= input.window_s ? "inside" : "outside of",
      count_in_words(input.window_s),
      size_in_words(bytes_within(PathModel::kDirect, input.job, input.fleet, constants, input.window_s)),
      needed > 0 ? fmt::format("{} such drive{} a node would do", count_in_words(needed), needed == 1 ? "" : "s")
                 : std::string("no number of drives would do, since another stage binds"));
}

std::string load_answer(const CheckpointInput& input, const Constants& constants) {
  const Duration direct = duration(PathModel::kDirect, input.job, input.fleet, constants);
  const Duration host = duration(PathModel::kBounce, input.job, input.fleet, constants);
  return fmt::format("{} take {} by the direct path (bound by the {}), and {} by a good host path (bound by the {}).",
                     size_in_words(input.job.bytes), time_in_words(direct.seconds), direct.binds,
                     time_in_words(host.seconds), host.binds);
}

constexpr double kCurveShortest_s = 10, kCurveLongest_s = 1e6, kCurveStep = 1.2;

Sheet goodput_sheet(const CheckpointInput& input, const Constants& constants) {
  Sheet sheet{"goodput", "Goodput by interval", {{"interval_s", "interval between checkpoints"}}, {}, true};
  std::vector<Training> runs;
  for (const PathModel path : paths_of(input)) {
    const std::string name(path_model_name(path));
    sheet.columns.push_back({name, name});
    runs.push_back(run_of(path, false, input, constants));
  }
  for (double period_s = kCurveShortest_s; period_s <= kCurveLongest_s; period_s *= kCurveStep) {
    std::vector<Json> row = {period_s};
    for (const Training& run : runs) row.push_back(period_s < run.save_s ? Json() : number(goodput(run, period_s)));
    sheet.rows.push_back(std::move(row));
  }
  return sheet;
}

Plot goodput_plot(const Sheet& sheet) {
  Plot plot{"Goodput by interval, training waiting for each checkpoint", sheet.name, sheet.columns[0].name, {}};
  for (std::size_t i = 1; i < sheet.columns.size(); ++i) plot.y.push_back(sheet.columns[i].name);
  return plot;
}

// How much of the gain of the direct path over the poor one a good host path reaches, too. The table above has the
// times.
std::string who_earned_it(const CheckpointInput& input, const Constants& constants) {
  const auto seconds = [&](PathModel path) { return duration(path, input.job, input.fleet, constants).seconds; };
  const double direct = seconds(PathModel::kDirect), good = seconds(PathModel::kBounce),
               poor = seconds(PathModel::kPoor);
  if (poor <= direct) return "A poor host path, a good one and the direct path take about the same time here.";
  return fmt::format("Of the time that the direct path saves over a poor host path, a good host path saves {:.0f} %.",
                     100 * std::clamp((poor - good) / (poor - direct), 0.0, 1.0));
}

// Which row is nearest to the rate that --calibrate measured.
std::string you_are_here(const CheckpointInput& input, const Constants& constants) {
  const auto seconds = [&](PathModel path) { return duration(path, input.job, input.fleet, constants).seconds; };
  const double measured = seconds(PathModel::kMeasured);
  const auto distance = [&](PathModel path) { return std::abs(std::log(seconds(path) / measured)); };
  constexpr PathModel kModels[] = {PathModel::kDirect, PathModel::kBounce, PathModel::kSerial, PathModel::kPoor};
  const PathModel nearest = *std::min_element(std::begin(kModels), std::end(kModels),
                                              [&](PathModel a, PathModel b) { return distance(a) < distance(b); });
  return fmt::format("You are here: '{}', which is nearest to '{}' ({:.2f} times its time).",
                     path_model_name(PathModel::kMeasured), path_model_name(nearest), measured / seconds(nearest));
}

std::string drives_note(const CheckpointInput& input, const Constants& constants) {
  const ConstantFacts& known = facts_of(Constant::kDriveShare);
  const double share = constants[Constant::kDriveShare];
  const std::string used = rate_in_words(drive_in_use(input.fleet, constants));
  if (input.fleet.drive_share > 0) return fmt::format("Each drive moves {} in use, as --drive-gb-per-s says.", used);
  return fmt::format(
      "A drive whose data sheet says {} is taken to reach {} in use, {} of it (drive.share; {} to {} are published{}); "
      "--drive-gb-per-s is for what one was measured to move.",
      rate_in_words(input.fleet.drive_bytes_per_s), used, share, known.low, known.high,
      share == known.high ? ", and this is their favourable end" : "");
}

// Says what the call of most programs costs, and which line takes its place.
std::string torch_note(const CheckpointInput& input, const Constants& constants) {
  return fmt::format(
      "'torch.save': one rank writes everything into one file, and training waits {} for it. In place "
      "of torch.save(state, path) say penstock.checkpoint.save(state, folder); penstock.checkpoint.Saver lets training "
      "go on.",
      time_in_words(duration(PathModel::kTorchSave, input.job, input.fleet, constants).seconds));
}

std::vector<std::string> notes_of(const CheckpointInput& input, const Constants& constants) {
  std::vector<std::string> notes = {who_earned_it(input, constants)};
  if (input.fleet.measured_bytes_per_s > 0) notes.push_back(you_are_here(input, constants));
  if (input.fleet.fabric_bytes_per_s == 0) notes.push_back(drives_note(input, constants));
  return notes;
}

// The price, or the prices between which a range goes: one that was given stays.
std::string price_in_words(const Constants& constants) {
  const ConstantFacts& known = facts_of(kGpuHourPrice);
  if (constants[kGpuHourPrice] != known.value) return fmt::format("{} $", constants[kGpuHourPrice]);
  return fmt::format("{} to {} $", known.low, known.high);
}

std::vector<Sensitivity> time_sensitivities(const CheckpointInput& input, const Constants& constants) {
  std::vector<Sensitivity> all;
  for (const PathModel path : {PathModel::kDirect, PathModel::kBounce, PathModel::kPoor}) {
    all.push_back(
        sensitivity_of(fmt::format("{}, {}, s", input.job.is_load ? "load" : "save", path_model_name(path)), constants,
                       [&](const Constants& c) { return duration(path, input.job, input.fleet, c).seconds; }));
  }
  all.push_back(sensitivity_of(fmt::format("all GPUs during a {}, direct, at {} a GPU-hour, $",
                                           input.job.is_load ? "load" : "save", price_in_words(constants)),
                               constants, [&](const Constants& c) {
                                 return money_of(duration(PathModel::kDirect, input.job, input.fleet, c).seconds, input,
                                                 c);
                               }));
  return all;
}

CheckpointInput example(double gigabytes, double ranks, double drives, double drive_bytes_per_s, bool is_sharded) {
  CheckpointInput input;
  input.job.bytes = gigabytes * 1e9;
  input.job.is_sharded = is_sharded;
  input.fleet = {.ranks = ranks, .drives = drives, .drive_bytes_per_s = drive_bytes_per_s};
  return input;
}

}  // namespace

std::vector<Example> checkpoint_examples(const Constants& constants) {
  const double gen4 = constants[kDriveGen4Read], gen5 = constants[kDriveGen5Read];
  CheckpointInput week = example(140, 8, 1, gen4, false);
  week.checkpoints = 1000;
  week.mtbf_hours = 1e9;  // The published hours include no failures.
  CheckpointInput small = example(14, 1, 1, gen4, false);
  small.fleet.drive_cache_bytes = 8.75e9;
  CheckpointInput zero3 = example(0, 8, 8, gen5, true);
  zero3.model = {.parameters = 70e9, .weight_bytes = 0, .optimizer_bytes = 8};
  CheckpointInput fleet = example(0, 1024, 4, gen5, true);
  fleet.fleet.nodes = 128;
  fleet.model = {.parameters = 671e9, .weight_bytes = 2, .optimizer_bytes = 12};
  return {{"14gb", "14 GB, one GPU, one Gen4 drive", example(14, 1, 1, gen4, false)},
          {"14gb-cached", "the same, the drive taking 8.75 GB at its full rate", small},
          {"140gb", "140 GB, one GPU, one Gen4 drive", example(140, 1, 1, gen4, false)},
          {"140gb-h200", "140 GB, eight GPUs, four Gen5 drives", example(140, 8, 4, gen5, true)},
          {"week", "1,000 checkpoints of 140 GB in a week of eight GPUs", week},
          {"zero3-70b", "optimizer state of 70B parameters, eight ranks, a Gen5 drive each", zero3},
          {"fleet-671b", "671B parameters on 1,024 GPUs of 128 nodes, failures and all", fleet}};
}

std::vector<Example> load_examples(const Constants& constants) {
  const double gen4 = constants[kDriveGen4Read], gen5 = constants[kDriveGen5Read];
  CheckpointInput files = example(100, 1, 1, gen4, false);
  files.job.files = 812000;
  CheckpointInput fabric = example(50000, 1024, 4, gen5, true);
  fabric.fleet.nodes = 128;
  fabric.fleet.fabric_bytes_per_s = 250e9;
  return {{"109b", "109B weights in FP8, one Gen4 drive", example(109, 1, 1, gen4, false)},
          {"671b", "671B weights in FP8, one Gen4 drive", example(671, 1, 1, gen4, false)},
          {"671b-h200", "671B weights in FP8, eight GPUs, four Gen5 drives", example(671, 8, 4, gen5, true)},
          {"dataset", "100 GB in one pass, one Gen4 drive", example(100, 1, 1, gen4, false)},
          {"dataset-files", "the same as 812,000 files, one after the other", files},
          {"fabric", "50 TB into 1,024 GPUs over fabric at 250 GB/s", fabric}};
}

CheckpointInput example_named(const std::vector<Example>& examples, const std::string& name) {
  std::string names;
  for (const Example& one : examples) {
    if (one.name == name) return one.input;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
  }
  throw InvalidInput(fmt::format("there is no example '{}'; there are: {}", name, names));
}

Json inputs_json(const Job& job, const ModelSize& model, const Fleet& fleet, const Constants& constants) {
  Json json = {{"bytes", job.bytes}};
  if (model.parameters > 0) {
    json["parameters"] = model.parameters;
    json["weight_bytes"] = model.weight_bytes;
    json["optimizer_bytes"] = model.optimizer_bytes;
  }
  json["nodes"] = fleet.nodes;
  json["ranks"] = fleet.ranks;
  json["drives_per_node"] = fleet.drives;
  json["drive_bytes_per_s"] = drive_in_use(fleet, constants);
  json["drive_write_bytes_per_s"] = fleet.drive_write_bytes_per_s;
  json["drive_cache_bytes"] = fleet.drive_cache_bytes;
  json["fabric_bytes_per_s"] = fleet.fabric_bytes_per_s;
  json["measured_bytes_per_s"] = fleet.measured_bytes_per_s;
  json["sharded"] = job.is_sharded;
  json["replicated"] = job.is_replicated;
  json["files"] = job.files;
  return json;
}

Report checkpoint_report(const CheckpointInput& given, const Constants& constants, bool with_published) {
  const CheckpointInput input = settled(given);
  (void)run_of(PathModel::kDirect, false, input, constants);  // It checks the run.
  std::vector<double> saves_s;
  for (const PathModel path : paths_of(input)) {
    saves_s.push_back(duration(path, input.job, input.fleet, constants).seconds);
  }
  check_room(input.checkpoints, input.run_hours, saves_s);
  Report report{"checkpoint", "Checkpoints: how long, how often, at what price"};
  report.answer = answer_of(input, constants);
  if (input.window_s > 0) report.answer = window_answer(input, constants) + " " + report.answer;
  report.inputs = inputs_json(input.job, input.model, input.fleet, constants);
  report.inputs["gpu_hour_money"] = constants[kGpuHourPrice];
  report.inputs["run_hours"] = input.run_hours;
  report.inputs["checkpoints"] = input.checkpoints;
  report.inputs["mtbf_s"] = run_of(PathModel::kDirect, false, input, constants).failure_s;
  report.inputs["restart_s"] = input.restart_s;
  report.inputs["window_s"] = input.window_s;
  report.inputs["snapshot_s"] = snapshot_s(input.job, input.fleet, constants);
  report.sheets = {times_sheet(input, constants), run_sheet(input, constants), month_sheet(input, constants)};
  if (input.window_s > 0) report.sheets.push_back(window_sheet(input, constants));
  if (with_published) report.sheets.push_back(published_sheet("checkpoint", constants));
  report.sheets.push_back(goodput_sheet(input, constants));
  report.csv_sheet = "run";
  report.plots = {goodput_plot(report.sheets.back())};
  report.sensitivities = time_sensitivities(input, constants);
  report.sensitivities.push_back(
      sensitivity_of("lost in the run, direct, training waiting, h", constants,
                     [&](const Constants& c) { return losses(run_of(PathModel::kDirect, false, input, c)).hours(); }));
  report.notes = notes_of(input, constants);
  report.notes.push_back(torch_note(input, constants));
  add_room_notes(input, constants, report.notes);
  report.notes.emplace_back("Where training goes on, it stands still only while the state is copied out of its way.");
  report.notes.emplace_back(
      "'direct': between GPU and drive. 'good host': through host memory, while other bytes move. 'host, no overlap': "
      "one "
      "step after the other. 'poor host': as slow as the published host path.");
  return report;
}

Report load_report(const CheckpointInput& given, const Constants& constants, bool with_published) {
  CheckpointInput input = settled(given);
  input.job.is_load = true;
  if (input.load_measured_bytes_per_s > 0) input.fleet.measured_bytes_per_s = input.load_measured_bytes_per_s;
  Report report{"load", "Loads: how long, and what binds"};
  report.answer = load_answer(input, constants);
  report.inputs = inputs_json(input.job, input.model, input.fleet, constants);
  report.inputs["gpu_hour_money"] = constants[kGpuHourPrice];
  report.sheets = {times_sheet(input, constants)};
  if (with_published) report.sheets.push_back(published_sheet("load", constants));
  report.sensitivities = time_sensitivities(input, constants);
  report.notes = notes_of(input, constants);
  return report;
}

}  // namespace penstock::model
