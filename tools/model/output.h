// SPDX-License-Identifier: Apache-2.0

// What the sub-commands of penstock model share: constants that a user sets, benchmark results that calibrate, and the
// ways a report leaves the tool: text, JSON, CSV, and one HTML page, published under its name in one step.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/report.h"
#include "model/transfer.h"
#include "tools/common/command_line.h"

namespace penstock::tools {

struct ModelOutput {
  bool json = false;
  bool csv = false;
  bool sensitivity = false;
  std::string html;
  bool overwrite = false;
  std::vector<std::string> settings;  // "drive.share=0.5"
};
void add_output_options(CommandLine& command, ModelOutput& output);

model::Constants constants_of(const ModelOutput& output);
void deliver(const model::Report& report, const ModelOutput& output);

// Text as the whole content of a file that did not exist, unless it may be replaced.
void write_file(const std::string& path, const std::string& text, bool overwrite);

std::vector<model::Measurement> read_measurements(const std::vector<std::string>& files);
// Calibrated to all of them; none for no file.
std::vector<model::GroupComparison> calibrated_by(const std::vector<std::string>& files,
                                                  const model::Constants& constants);

// Inputs that a model refuses are wrong usage.
int answer(const std::function<void()>& command);

}  // namespace penstock::tools
