// SPDX-License-Identifier: Apache-2.0

// Shared by the commands of penstock-model: constants set by the user, benchmark results for calibration, and the
// output of reports: text, JSON, CSV, and one HTML page, published under its name in one step.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/report.h"
#include "model/transfer.h"
#include "tools/common/command_line.h"

namespace penstock::tools {

std::string_view report_page();  // The page of every model except contention's; "" if this build has no plots.

struct ModelOutput {
  bool json = false;
  bool csv = false;
  bool sensitivity = false;
  std::string html;
  bool overwrite = false;
  std::vector<std::string> settings;   // "drive.share=0.5"
  std::optional<CommandLine> command;  // Whose options were given or not.
};
void add_output_options(CommandLine& command, ModelOutput& output);

model::Constants constants_of(const ModelOutput& output);
// The text tells of each input whether it was given, assumed or worked out, or that it is of the published case
// `example`.
void deliver(const model::Report& report, const ModelOutput& output, const std::string& example = "");

// Reads a file that should contain `what`; throws Failure.
std::string content_of(const std::string& path, const char* what);
std::vector<model::Measurement> read_measurements(const std::vector<std::string>& files);
// Calibrates to all results; empty without files.
std::vector<model::GroupComparison> calibrated_by(const std::vector<std::string>& files,
                                                  const model::Constants& constants);

// Turns invalid input of a model into a usage error.
int answer(const std::function<void()>& command);

}  // namespace penstock::tools
