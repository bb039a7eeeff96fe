// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <memory>

#include "model/compare_report.h"
#include "model/program/commands.h"
#include "model/program/output.h"
#include "model/registration_report.h"
#include "tools/common/context.h"

namespace penstock::tools {
namespace {

struct RegistrationSettings {
  std::uint64_t buffer = 1 << 20;
  double link_gbit = 100;
  double ios = 4;
  double setup_us = 0;
  double workers = 1, buffers = 8;
  double contexts = 1;
  double gain_percent = 10;
  bool example = false;
  std::vector<std::string> calibrations;
  ModelOutput output;
};

constexpr const char* kRegistrationExamples =
    "Examples:\n"
    "  penstock-model registration                                  1 MiB, 100 Gb/s, 4 I/Os\n"
    "  penstock-model registration --buffer 64M --link-gbit 400     other buffers, another link\n"
    "  penstock-model registration --html frontier.html             the frontier as a surface that can be turned\n"
    "  penstock-model registration --csv > frontier.csv             the same as numbers\n"
    "  penstock-model registration --example                        beside the published figures\n"
    "Exit code: 0 done, 1 a file could not be read or written, 2 wrong usage.";

model::RegistrationInput input_of(const RegistrationSettings& settings, const model::Constants& constants) {
  model::RegistrationInput input;
  input.buffer_bytes = static_cast<double>(settings.buffer);
  input.link_bytes_per_s = settings.link_gbit * 1e9 / 8;
  input.ios = settings.ios;
  input.setup_s = settings.setup_us * 1e-6;
  input.workers = settings.workers;
  input.buffers = settings.buffers;
  input.contexts = settings.contexts;
  input.gain = settings.gain_percent / 100;
  const auto groups = calibrated_by(settings.calibrations, constants);
  if (!groups.empty()) {
    input.link_bytes_per_s =
        std::max(model::measured_ceiling(groups, "read"), model::measured_ceiling(groups, "randread"));
  }
  return input;
}

void run_registration(const RegistrationSettings& settings) {
  const model::Constants constants = constants_of(settings.output);
  deliver(model::registration_report(input_of(settings, constants), constants, settings.example), settings.output);
}

}  // namespace

void add_registration(CommandLine& command) {
  auto settings = std::make_shared<RegistrationSettings>();
  command.size("--buffer", settings->buffer, "Bytes of one I/O [1M]");
  const Option link = command.option("--link-gbit", settings->link_gbit, "Bandwidth of the link, in Gb/s")
                          .value_name("GBIT")
                          .default_shown();
  command.option("--ios", settings->ios, "How many I/Os one registration serves").default_shown();
  command.option("--setup-us", settings->setup_us, "What GPU memory costs once besides, in microseconds")
      .value_name("US")
      .default_shown();
  command.option("--workers", settings->workers, "How many share the NIC, each with host buffers of its own")
      .default_shown();
  command.option("--buffers", settings->buffers, "How many host buffers each of them uses in turn").default_shown();
  command.option("--contexts", settings->contexts, "On how many GPUs one process has contexts").default_shown();
  command.option("--gain-percent", settings->gain_percent, "How much time must be saved to count in the frontier")
      .value_name("PERCENT")
      .default_shown();
  command.flag("--example", settings->example, "Add the published figures, and what the model says for them");
  command
      .option("--calibrate", settings->calibrations,
              "Take the link from the reads that 'penstock bench --json' measured")
      .value_name("FILE")
      .one_value_each()
      .excludes(link);
  add_output_options(command, settings->output);
  command.footer(kRegistrationExamples);
  command.runs([settings] { return answer([&] { run_registration(*settings); }); });
}

}  // namespace penstock::tools
