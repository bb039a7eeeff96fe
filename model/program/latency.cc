// SPDX-License-Identifier: Apache-2.0

#include "model/latency.h"

#include <memory>

#include "model/program/commands.h"
#include "model/program/output.h"

namespace penstock::tools {
namespace {

struct LatencySettings {
  std::uint64_t size = 1 << 20;
  bool is_write = false;
  double drive_gb_per_s = 7;
  double network_gbit = 0;
  bool published = false;
  ModelOutput output;
};

constexpr const char* kLatencyExamples =
    "Examples:\n"
    "  penstock-model latency                                   a read of 1 MiB from a local drive\n"
    "  penstock-model latency --size 16M --write                a write, and how often it goes through host memory\n"
    "  penstock-model latency --network-gbit 400                from a drive at the other end of a network\n"
    "  penstock-model latency --published                       beside the published figures\n"
    "Exit code: 0 done, 1 a file could not be written, 2 wrong usage.";

model::LatencyInput input_of(const LatencySettings& settings) {
  return {.bytes = static_cast<double>(settings.size),
          .is_write = settings.is_write,
          .drive_bytes_per_s = settings.drive_gb_per_s * 1e9,
          .network_bytes_per_s = settings.network_gbit * 1e9 / 8};
}

void run_latency(const LatencySettings& settings) {
  const model::Constants constants = constants_of(settings.output);
  deliver(model::latency_report(input_of(settings), constants, settings.published), settings.output);
}

}  // namespace

void add_latency(CommandLine& command) {
  auto settings = std::make_shared<LatencySettings>();
  command.size("--size", settings->size, "Bytes of the I/O [1M]");
  command.flag("--write", settings->is_write, "From the GPU to the drive");
  command
      .option("--drive-gb-per-s", settings->drive_gb_per_s,
              "The ceiling of the drive, about 7 (Gen4) or 14 (Gen5): one I/O alone has all of it")
      .value_name("GB/S")
      .default_shown();
  command.option("--network-gbit", settings->network_gbit, "The network to the drive, in Gb/s; 0: the drive is local")
      .value_name("GBIT")
      .default_shown();
  command.flag("--published", settings->published, "Add the published figures, and what the model says for them");
  add_output_options(command, settings->output);
  command.footer(kLatencyExamples);
  command.runs([settings] { return answer([&] { run_latency(*settings); }); });
}

}  // namespace penstock::tools
