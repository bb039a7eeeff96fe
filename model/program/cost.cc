// SPDX-License-Identifier: Apache-2.0

#include "model/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "model/input.h"
#include "model/program/commands.h"
#include "model/program/job.h"
#include "model/program/output.h"
#include "tools/common/context.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

struct CostSettings {
  JobSettings job;
  double checkpoints = 1000, hours = 168;
  std::string every, file_system;
  double file_system_tb = 0, offer_month = 0;
  std::string offer_gb_per_s;  // Of one that somebody offers; "" for none.
  double setup_hours = 2, setup_money = 0;
  std::string platforms;
  std::vector<std::string> names;
  bool print_platforms = false;
  ModelOutput output;
};

constexpr const char* kCostExamples =
    "Examples:\n"
    "  penstock-model cost --size-gb 1600 --nodes 16            1,000 saves of 1.6 TB in a week\n"
    "  penstock-model cost --one-rank --drives 1 --drive-gb-per-s 4.2   the published case: one GPU and drive save 140 "
    "GB\n"
    "  penstock-model cost --size-gb 80 --every 30m             what waiting for them costs, also in a month\n"
    "  penstock-model cost --size-gb 980 --platform aws-p5.48xlarge\n"
    "  penstock-model cost --file-system fsx-lustre-1000 --file-system-tb 96 --nodes 16 --drives 8\n"
    "  penstock-model cost --offer-gb-per-s 40 --offer-month 9000 --nodes 4    storage that is offered: "
    "what "
    "it\n"
    "                                                           gains over the nodes' drives, and for how much\n"
    "  penstock-model cost --print-platforms > mine.yaml        a start for prices of your own\n"
    "  penstock-model cost --platforms mine.yaml --setup-hours 8\n"
    "Exit code: 0 done, 1 a file could not be read or written, 2 wrong usage.";

struct PlatformsText {
  std::string name;
  std::string text;
};

PlatformsText platforms_text_of(const CostSettings& settings) {
  if (settings.platforms.empty()) return {"built-in platforms", std::string(model::platforms_text())};
  return {settings.platforms, content_of(settings.platforms, "platforms")};
}

// Returns the item with that name, or throws InvalidInput with the known names.
template <typename One>
One named(const std::vector<One>& all, const std::string& name, const char* what) {
  std::string names;
  for (const One& one : all) {
    if (one.name == name) return one;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
  }
  throw model::InvalidInput(
      fmt::format("there is no {} '{}'; there are: {}", what, name, names.empty() ? "none" : names));
}

std::vector<model::Platform> platforms_of(const CostSettings& settings, const PlatformsText& given) {
  std::vector<model::Platform> all = model::parse_platforms(given.text, given.name);
  if (settings.names.empty()) return all;
  std::vector<model::Platform> some;
  for (const std::string& name : settings.names) some.push_back(named(all, name, "platform"));
  return some;
}

std::optional<model::FileSystem> offered_by(const CostSettings& settings) {
  if (settings.offer_gb_per_s.empty()) return std::nullopt;
  const std::string& rates = settings.offer_gb_per_s;
  const std::size_t colon = rates.find(':');
  const auto rate_of = [](const std::string& text) {
    const double rate = gigabytes("--offer-gb-per-s", text);
    model::require_positive("the rate of the file system", rate, 1e15);
    return rate;
  };
  const double reads = colon == rates.npos ? 0 : rate_of(rates.substr(0, colon));
  const double writes = rate_of(colon == rates.npos ? rates : rates.substr(colon + 1));
  model::require_not_negative("the price of the file system for a month", settings.offer_month, 1e12);
  return model::FileSystem{"the file system that is offered",
                           0,
                           writes,
                           settings.offer_month,
                           "its rates for saves and for loads are those of --offer-gb-per-s",
                           reads};
}

std::optional<model::FileSystem> file_system_of(const CostSettings& settings, const PlatformsText& given) {
  if (const auto offered = offered_by(settings)) return offered;
  const std::vector<model::FileSystem> all = model::parse_file_systems(given.text, given.name);
  if (settings.file_system.empty()) return std::nullopt;
  const model::FileSystem one = named(all, settings.file_system, "file system");
  if (settings.file_system_tb == 0) return one;
  model::require_positive("the size of the file system in TB", settings.file_system_tb, 1e9);
  return one.of_size(settings.file_system_tb);
}

model::CostInput input_of(const CostSettings& settings) {
  return {.job = job_of(settings.job),
          .model = size_of(settings.job),
          .fleet = fleet_of(settings.job),
          .saves = saves_of(settings.every, settings.hours, settings.checkpoints),
          .hours = settings.hours,
          .setup_hours = settings.setup_hours,
          .setup_money = settings.setup_money,
          .file_system = std::nullopt};
}

void run_cost(const CostSettings& settings) {
  if (settings.print_platforms) return print_document(Text(std::string(model::platforms_text())));
  const model::Constants constants = constants_of(settings.output);
  const PlatformsText given = platforms_text_of(settings);
  model::CostInput input = input_of(settings);
  input.file_system = file_system_of(settings, given);
  deliver(model::cost_report(platforms_of(settings, given), input, constants), settings.output);
}

void add_run_options(CommandLine& command, CostSettings& settings) {
  Option count = command.option("--checkpoints", settings.checkpoints, "How many in the run");
  count.default_shown();
  command.option("--every", settings.every, "From one checkpoint to the next, in place of a number: 90s, 30m, 2h")
      .value_name("TIME")
      .excludes(count);
  command.option("--hours", settings.hours, "Length of the run").value_name("HOURS").default_shown();
}

}  // namespace

void add_cost(CommandLine& command) {
  auto settings = std::make_shared<CostSettings>();
  add_job_options(command, settings->job);
  add_save_options(command, settings->job);
  add_run_options(command, *settings);
  command.option("--platform", settings->names, "Only this one; may be given several times")
      .value_name("NAME")
      .one_value_each();
  command.option("--platforms", settings->platforms, "Prices and machines of your own, as --print-platforms has them")
      .value_name("FILE");
  command.flag("--print-platforms", settings->print_platforms, "Print the built-in platforms, as a file of them");
  command.option("--setup-hours", settings->setup_hours, "Hours that a node is paid for while it is set up (assumed)")
      .value_name("HOURS")
      .default_shown();
  command.option("--setup-money", settings->setup_money, "What the set-up costs besides, in dollars")
      .value_name("MONEY")
      .default_shown();
  Option file_system =
      command
          .option("--file-system", settings->file_system,
                  "Set the nodes' drives against this file system of the platforms' file, which they share")
          .value_name("NAME");
  const Option offered = command
                             .option("--offer-gb-per-s", settings->offer_gb_per_s,
                                     "Set them against one that somebody offers: what it moves for all nodes "
                                     "together, one rate or READS:WRITES, such as 40:20")
                             .value_name("GB/S");
  file_system.excludes(offered);
  command.option("--offer-month", settings->offer_month, "What that one costs a month, in dollars")
      .value_name("MONEY")
      .needs(offered);
  command
      .option("--file-system-tb", settings->file_system_tb,
              "Its size, with which its rate and price grow [as in the file]")
      .value_name("TB")
      .needs(file_system);
  add_output_options(command, settings->output);
  command.footer(kCostExamples);
  command.runs([settings] { return answer([&] { run_cost(*settings); }); });
}

}  // namespace penstock::tools
