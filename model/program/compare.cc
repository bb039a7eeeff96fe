// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <memory>

#include "model/compare_report.h"
#include "model/input.h"
#include "model/program/commands.h"
#include "model/program/output.h"
#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

struct CompareSettings {
  std::vector<std::string> files;
  unsigned hold_out = 4;
  double within_percent = 0;
  ModelOutput output;
};

constexpr const char* kCompareExamples =
    "Examples:\n"
    "  for bs in 4k 64k 1M 16M; do for depth in 1 4 16; do\n"
    "    penstock bench data --bs $bs --depth $depth --time 2 --json\n"
    "  done; done > results.json\n"
    "  penstock-model compare results.json                   calibrate on three points of four, predict all\n"
    "  penstock-model compare results.json --hold-out 2      calibrate on every other point\n"
    "  penstock-model compare results.json --within 10       fail if one that was left out is off by over 10 %\n"
    "Exit code: 0 done, 1 off by more than --within or a file could not be read, 2 wrong usage.";

void run_compare(const CompareSettings& settings) {
  model::require_not_negative("--within", settings.within_percent, 1e6);
  const auto groups =
      model::compare(read_measurements(settings.files), settings.hold_out, constants_of(settings.output));
  deliver(model::compare_report(groups, settings.hold_out), settings.output);
  if (settings.within_percent == 0) return;
  const double largest = 100 * model::largest_error(groups, settings.hold_out > 0);
  if (largest <= settings.within_percent) return;
  throw Failure(fmt::format("the largest error is {:.1f} %, more than {:g} %", largest, settings.within_percent));
}

}  // namespace

void add_compare(CommandLine& command) {
  auto settings = std::make_shared<CompareSettings>();
  command.option("FILE", settings->files, "What 'penstock bench --json' printed, once or several times").required();
  command.option("--hold-out", settings->hold_out, "Leave each Nth point out of the calibration; 0: none")
      .value_name("N")
      .default_shown();
  command.option("--within", settings->within_percent, "Fail if a point that was left out is off by more")
      .value_name("PERCENT");
  add_output_options(command, settings->output);
  command.footer(kCompareExamples);
  command.runs([settings] { return answer([&] { run_compare(*settings); }); });
}

}  // namespace penstock::tools
