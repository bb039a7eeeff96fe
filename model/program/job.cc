// SPDX-License-Identifier: Apache-2.0

#include "model/program/job.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/common/failure.h"
#include "tools/common/program.h"

namespace penstock::tools {
namespace {

// Bytes per parameter. Optimizers: two moments, two moments plus a master copy, one moment; all in FP32.
constexpr std::pair<const char*, double> kPrecisions[] = {{"fp32", 4}, {"bf16", 2},  {"fp16", 2},
                                                          {"fp8", 1},  {"fp4", 0.5}, {"none", 0}};
constexpr std::pair<const char*, double> kOptimizers[] = {
    {"adam", 8}, {"adam-master", 12}, {"momentum", 4}, {"none", 0}};

template <std::size_t count>
double bytes_named(const std::pair<const char*, double> (&table)[count], const std::string& name) {
  for (const auto& [known, bytes] : table) {
    if (name == known) return bytes;
  }
  return 0;  // The command line has refused it already.
}

// A number and the unit behind it; nothing if the text begins with none.
std::optional<std::pair<double, std::string_view>> number_with_unit(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  return std::pair(value, text.substr(static_cast<std::size_t>(end - text.data())));
}

// What a unit is worth; nothing if the table has none of that name.
template <std::size_t count>
std::optional<double> worth(const std::pair<const char*, double> (&table)[count], std::string_view unit) {
  for (const auto& [known, value] : table) {
    if (unit == known) return value;
  }
  return std::nullopt;
}

template <std::size_t count>
std::vector<std::string> names_of(const std::pair<const char*, double> (&table)[count]) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : table) names.emplace_back(name);
  return names;
}

}  // namespace

void add_job_options(CommandLine& command, JobSettings& settings) {
  const Option size =
      command.option("--size-gb", settings.size_gb, "All bytes together, in 10^9").value_name("GB").default_shown();
  command.option("--parameters", settings.parameters_billion, "The model's parameters in 10^9, in place of a size")
      .excludes(size);
  command.option("--precision", settings.precision, "Precision of the weights; with --parameters")
      .one_of(names_of(kPrecisions))
      .default_shown();
  command.option("--nodes", settings.nodes, "Nodes, all alike").default_shown();
  command.option("--drives", settings.drives, "Drives in each node").default_shown();
  command
      .option("--drive-gb-per-s", settings.drive_gb_per_s,
              "What one drive moves in use, as it was measured; of a data sheet's rate about 0.6 [8.4, of a PCIe Gen5 "
              "drive of 14]")
      .value_name("GB/S");
  command.flag("--one-rank", settings.one_rank,
               "One rank of each node moves everything; otherwise each moves its part");
}

void add_save_options(CommandLine& command, JobSettings& settings) {
  command.option("--optimizer", settings.optimizer, "Which optimizer's state is saved; with --parameters")
      .one_of(names_of(kOptimizers))
      .default_shown();
  command
      .option("--drive-cache-gb", settings.drive_cache_gb,
              "How much a node's drives take into a cache, at their full rate")
      .value_name("GB")
      .default_shown();
  command.option("--write-gb-per-s", settings.write_gb_per_s, "Now --drive-gb-per-s").value_name("GB/S").hidden();
}

double gigabytes(const char* option, const std::string& text) {
  constexpr std::pair<const char*, double> kUnits[] = {{"", 1e9}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}};
  const auto number = number_with_unit(text);
  std::string_view unit = number ? number->second : "?";
  if (unit.ends_with("/s")) unit.remove_suffix(2);
  if (unit.size() > 1 && unit.ends_with('B')) unit.remove_suffix(1);
  if (const auto bytes = worth(kUnits, unit)) return number->first * *bytes;
  throw Failure(fmt::format("{} {}: expected a number of GB (10^9 bytes), such as 80, 80G or 0.08T", option, text),
                kUsage);
}

double saves_of(const std::string& every, double hours, double given) {
  constexpr std::pair<const char*, double> kUnits[] = {{"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}};
  if (every.empty()) return given;
  const auto number = number_with_unit(every);
  const auto seconds = number ? worth(kUnits, number->second) : std::nullopt;
  if (seconds && number->first > 0) return hours * 3600 / (number->first * *seconds);
  throw Failure(fmt::format("--every {}: expected a time with its unit, such as 90s, 30m or 2h", every), kUsage);
}

model::ModelSize size_of(const JobSettings& settings) {
  return {.parameters = settings.parameters_billion * 1e9,
          .weight_bytes = bytes_named(kPrecisions, settings.precision),
          .optimizer_bytes = bytes_named(kOptimizers, settings.optimizer)};
}

model::Job job_of(const JobSettings& settings) {
  return {.bytes = gigabytes("--size-gb", settings.size_gb), .is_sharded = !settings.one_rank};
}

model::Fleet fleet_of(const JobSettings& settings) {
  model::Fleet fleet = {.ranks = kGpusOfNode * settings.nodes,
                        .nodes = settings.nodes,
                        .drives = settings.drives,
                        .drive_cache_bytes = gigabytes("--drive-cache-gb", settings.drive_cache_gb)};
  const bool is_old = !settings.write_gb_per_s.empty();
  if (is_old && !settings.drive_gb_per_s.empty())
    throw Failure("--drive-gb-per-s and --write-gb-per-s are one option: give --drive-gb-per-s alone", kUsage);
  if (is_old) report_new_name("penstock-model", "--write-gb-per-s", "--drive-gb-per-s");
  const std::string& given = is_old ? settings.write_gb_per_s : settings.drive_gb_per_s;
  if (given.empty()) return fleet;
  fleet.drive_bytes_per_s = gigabytes(is_old ? "--write-gb-per-s" : "--drive-gb-per-s", given);
  fleet.drive_share = 1;
  return fleet;
}

}  // namespace penstock::tools
