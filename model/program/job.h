// SPDX-License-Identifier: Apache-2.0

// The options that say what is moved by which nodes and drives, and their defaults: the commands checkpoint, load and
// cost share them, so that the same words mean the same job in each.
#pragma once

#include <string>

#include "model/checkpoint.h"
#include "tools/common/command_line.h"

namespace penstock::tools {

constexpr double kGpusOfNode = 8;

struct JobSettings {
  std::string size_gb = "140";
  double parameters_billion = 0;
  std::string precision = "bf16";
  std::string optimizer = "adam";
  double nodes = 1, drives = 4;
  std::string drive_gb_per_s, write_gb_per_s, drive_cache_gb = "0";  // "" for a rate: none was given.
  bool one_rank = false;
};

// Both write into `settings`, which must live until the command has run.
void add_job_options(CommandLine& command, JobSettings& settings);
void add_save_options(CommandLine& command, JobSettings& settings);

// The bytes that an option means: 10^9 of them for "1", "1G" and "0.001T". Throws a Failure that says so.
double gigabytes(const char* option, const std::string& text);
// How many saves a run has: `given`, or by the time from one to the next, "90s", "30m", "2h", unless that is "".
double saves_of(const std::string& every, double hours, double given);

model::ModelSize size_of(const JobSettings& settings);  // Without parameters the size in GB counts.
model::Job job_of(const JobSettings& settings);
model::Fleet fleet_of(const JobSettings& settings);  // With kGpusOfNode GPUs for each node.

}  // namespace penstock::tools
