// SPDX-License-Identifier: Apache-2.0

#include "model/program/job.h"

#include <utility>
#include <vector>

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
      .option(
          "--drive-gb-per-s", settings.drive_gb_per_s,
          "The ceiling of one drive, about 7 (PCIe Gen4) or 14 (Gen5); in use it reaches the share drive.share of it")
      .value_name("GB/S")
      .default_shown();
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
  command
      .option(
          "--write-gb-per-s", settings.drive_write_gb_per_s,
          "What one drive writes in use: saves go at that, and no share of it is taken; 0: at the share drive.share of "
          "--drive-gb-per-s. Data sheets name about 5 (Gen4) or 10 (Gen5)")
      .value_name("GB/S")
      .default_shown();
}

model::ModelSize size_of(const JobSettings& settings) {
  return {.parameters = settings.parameters_billion * 1e9,
          .weight_bytes = bytes_named(kPrecisions, settings.precision),
          .optimizer_bytes = bytes_named(kOptimizers, settings.optimizer)};
}

model::Job job_of(const JobSettings& settings) {
  return {.bytes = settings.size_gb * 1e9, .is_sharded = !settings.one_rank};
}

model::Fleet fleet_of(const JobSettings& settings) {
  return {.ranks = kGpusOfNode * settings.nodes,
          .nodes = settings.nodes,
          .drives = settings.drives,
          .drive_bytes_per_s = settings.drive_gb_per_s * 1e9,
          .drive_write_bytes_per_s = settings.drive_write_gb_per_s * 1e9,
          .drive_cache_bytes = settings.drive_cache_gb * 1e9};
}

}  // namespace penstock::tools
