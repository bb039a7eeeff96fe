// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "model/checkpoint_report.h"
#include "model/compare_report.h"
#include "model/input.h"
#include "model/program/commands.h"
#include "model/program/job.h"
#include "model/program/output.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

struct CheckpointSettings {
  bool is_load = false;
  JobSettings job;
  std::optional<double> ranks;
  std::string fabric_gb_per_s = "0";
  bool replicated = false;
  double files = 0;
  double hours = 168, checkpoints = 0, mtbf_hours = 0, restart_s = 0, window_s = 0, price = 0;
  std::string every, example;
  std::vector<std::string> calibrations;
  ModelOutput output;
};

constexpr const char* kSaveExamples =
    "Examples:\n"
    "  penstock-model checkpoint --parameters 70 --ranks 8 --drives 4       70B in BF16 with Adam's moments\n"
    "  penstock-model checkpoint --size-gb 80 --every 30m                   what a run and a month lose by it\n"
    "  penstock-model checkpoint --size-gb 140 --html checkpoint.html       with goodput over the interval\n"
    "  penstock-model checkpoint --example week                             a published case; 'list' names them\n"
    "  penstock-model checkpoint --drives 1 --drive-gb-per-s 4.2 --window 30 what fits into a preemption's 30 s\n"
    "  penstock-model checkpoint --example published                        all published figures beside the model\n"
    "  penstock-model checkpoint --calibrate bench.json                     with the path that bench measured here\n"
    "Exit code: 0 done, 1 a file could not be read or written, 2 wrong usage.";
constexpr const char* kLoadExamples =
    "Examples:\n"
    "  penstock-model load --parameters 109 --precision fp8 --drives 1 --drive-gb-per-s 4.2 --one-rank\n"
    "  penstock-model load --size-gb 140 --ranks 8 --replicated       every rank loads all of it\n"
    "  penstock-model load --example 671b                             a published case; 'list' names them\n"
    "Exit code: 0 done, 1 a file could not be read or written, 2 wrong usage.";

model::CheckpointInput input_as_given(const CheckpointSettings& settings) {
  model::CheckpointInput input;
  input.job = job_of(settings.job);
  input.job.is_load = settings.is_load;
  input.job.is_replicated = settings.replicated;
  input.job.files = settings.files;
  input.model = size_of(settings.job);
  if (settings.is_load) input.model.optimizer_bytes = 0;
  input.fleet = fleet_of(settings.job);
  if (settings.ranks) input.fleet.ranks = *settings.ranks;
  input.fleet.fabric_bytes_per_s = gigabytes("--fabric-gb-per-s", settings.fabric_gb_per_s);
  input.run_hours = settings.hours;
  input.checkpoints = saves_of(settings.every, settings.hours, settings.checkpoints);
  input.mtbf_hours = settings.mtbf_hours;
  input.restart_s = settings.restart_s;
  input.window_s = settings.window_s;
  return input;
}

void calibrate(model::CheckpointInput& input, const std::vector<std::string>& files,
               const model::Constants& constants) {
  const auto groups = calibrated_by(files, constants);
  if (groups.empty()) return;
  const auto best = [&](const char* one, const char* other) {
    return std::max(model::measured_ceiling(groups, one), model::measured_ceiling(groups, other));
  };
  input.load_measured_bytes_per_s = best("read", "randread");
  input.fleet.measured_bytes_per_s = best("write", "randwrite");
  const double needed = input.job.is_load ? input.load_measured_bytes_per_s : input.fleet.measured_bytes_per_s;
  if (needed > 0) return;
  throw model::InvalidInput(
      fmt::format("--calibrate: there is no {} among the results", input.job.is_load ? "read" : "write"));
}

void list_examples(const std::vector<model::Example>& examples, bool json) {
  Json rows = Json::array();
  for (const model::Example& one : examples) {
    rows.push_back({{"name", one.name}, {"what", one.what}});
    if (!json) print("{:<16}{}\n", one.name, one.what);
  }
  if (json) return print_json({{"examples", rows}});
  print("{:<16}every published figure beside the model's\n", "published");
}

// A published case has its own inputs, so that options for others would change nothing.
void refuse_beside_example(const CheckpointSettings& settings) {
  constexpr std::string_view kMayStand[] = {"--example", "--json",      "--csv",   "--sensitivity", "--html",
                                            "--set",     "--overwrite", "--price", "--window",      "--calibrate"};
  for (const std::string& option : settings.output.command->given()) {
    if (std::ranges::count(kMayStand, option) > 0) continue;
    throw Failure(fmt::format("{} does not go with --example {}, which has its own", option, settings.example), kUsage);
  }
}

void run_checkpoint(const CheckpointSettings& settings) {
  model::Constants constants = constants_of(settings.output);
  if (settings.price != 0) constants.set("price.gpu_hour", settings.price);
  const auto examples = settings.is_load ? model::load_examples(constants) : model::checkpoint_examples(constants);
  if (settings.example == "list") return list_examples(examples, settings.output.json);
  const bool is_case = !settings.example.empty() && settings.example != "published";
  if (is_case) refuse_beside_example(settings);
  model::CheckpointInput input = is_case ? model::example_named(examples, settings.example) : input_as_given(settings);
  if (settings.window_s != 0) input.window_s = settings.window_s;
  input.job.is_load = settings.is_load;
  calibrate(input, settings.calibrations, constants);
  const bool with_published = settings.example == "published";
  deliver(settings.is_load ? model::load_report(input, constants, with_published)
                           : model::checkpoint_report(input, constants, with_published),
          settings.output, is_case ? settings.example : "");
}

void add_run_options(CommandLine& command, CheckpointSettings& settings) {
  command.option("--hours", settings.hours, "Length of the run").value_name("HOURS").default_shown();
  Option count = command.option("--checkpoints", settings.checkpoints, "How many in the run; 0: at the best interval");
  count.default_shown();
  command.option("--every", settings.every, "From one checkpoint to the next, in place of a number: 90s, 30m, 2h")
      .value_name("TIME")
      .excludes(count);
  command.option("--mtbf-hours", settings.mtbf_hours, "From one failure to the next; 0: 50,000 divided by the ranks")
      .value_name("HOURS")
      .default_shown();
  command.option("--restart-s", settings.restart_s, "From a failure to the start of the load")
      .value_name("SECONDS")
      .default_shown();
  command
      .option("--window", settings.window_s, "Seconds that a save may take, as before a preemption; 0: no such limit")
      .value_name("SECONDS")
      .default_shown();
}

void add_common(CommandLine& command, const char* examples, std::shared_ptr<CheckpointSettings> settings) {
  add_job_options(command, settings->job);
  command.option("--ranks", settings->ranks, "GPUs of all nodes together [8 in each node]");
  command
      .option("--fabric-gb-per-s", settings->fabric_gb_per_s, "What shared storage in place of drives reaches; 0: none")
      .value_name("GB/S")
      .default_shown();
  command.option("--price", settings->price, "Price of one GPU-hour [4.06]").value_name("PRICE");
  command.option("--example", settings->example, "A published case; 'list' names them, 'published' shows all")
      .value_name("NAME");
  command.option("--calibrate", settings->calibrations, "Add the path that 'penstock bench --json' measured")
      .value_name("FILE")
      .one_value_each();
  add_output_options(command, settings->output);
  command.footer(examples);
  command.runs([settings] { return answer([&] { run_checkpoint(*settings); }); });
}

}  // namespace

void add_checkpoint(CommandLine& command) {
  auto settings = std::make_shared<CheckpointSettings>();
  add_common(command, kSaveExamples, settings);
  add_save_options(command, settings->job);
  add_run_options(command, *settings);
}

void add_load(CommandLine& command) {
  auto settings = std::make_shared<CheckpointSettings>();
  settings->is_load = true;
  add_common(command, kLoadExamples, settings);
  command.flag("--replicated", settings->replicated, "Every rank loads all of it");
  command.option("--files", settings->files, "How many files are opened one after the other").default_shown();
}

}  // namespace penstock::tools
