// SPDX-License-Identifier: Apache-2.0

// What the sub-commands of penstock-model share: constants that a user sets, benchmark results that calibrate, and the
// ways a report leaves the tool: text, JSON, CSV, and one HTML page, published under its name in one step.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/report.h"
#include "model/transfer.h"
#include "tools/common/command_line.h"

namespace penstock::tools {

std::string_view report_page();  // Of every model but contention's; "" where this build has no plots.

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
// The text leaves out the inputs that are as in `defaults`, the inputs of a report that was asked for nothing.
void deliver(const model::Report& report, const model::Json& defaults, const ModelOutput& output);

// Of a file that is to hold `what`; throws Failure.
std::string content_of(const std::string& path, const char* what);
std::vector<model::Measurement> read_measurements(const std::vector<std::string>& files);
// Calibrated to all of them; none for no file.
std::vector<model::GroupComparison> calibrated_by(const std::vector<std::string>& files,
                                                  const model::Constants& constants);

// Inputs that a model refuses are wrong usage.
int answer(const std::function<void()>& command);

}  // namespace penstock::tools
