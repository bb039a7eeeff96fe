// SPDX-License-Identifier: Apache-2.0

#include "tools/gdsio/report.h"

#include <fmt/format.h>

#include "tools/common/units.h"

namespace penstock::tools {
namespace {

constexpr double kKibi = 1024;

// The type's name in the result line, such as "GPUD".
const char* transfer_name(TransferType type) {
  constexpr const char* kNames[] = {"GPUD",           "CPUONLY",          "CPU_GPU",   "CPU_ASYNC_GPU",
                                    "CPU_CACHED_GPU", "GPU_DIRECT_ASYNC", "GPU_BATCH", "GPU_BATCH_STREAM"};
  return kNames[static_cast<unsigned>(type)];
}

const char* operation_name(const GdsioOutcome& outcome) {
  if (outcome.is_random) return outcome.is_write ? "RANDWRITE" : "RANDREAD";
  return outcome.is_write ? "WRITE" : "READ";
}

std::string kibibytes(std::uint64_t bytes) { return fmt::format("{}", static_cast<double>(bytes) / kKibi); }

std::string io_size(const IoSizes& io) {
  if (io.step == 0 || io.smallest == io.largest) return kibibytes(io.largest);
  return fmt::format("{}-{}-{}", kibibytes(io.smallest), kibibytes(io.largest), kibibytes(io.step));
}

double throughput(const JobResult& result) { return gibibytes(result.tally.bytes) / result.seconds; }

double average_us(const Tally& tally) {
  if (tally.operations == 0) return 0;
  return static_cast<double>(tally.latency_sum_ns) / 1e3 / static_cast<double>(tally.operations);
}

std::uint64_t bytes_of(const Counter& way) { return way.read_bytes + way.write_bytes; }

}  // namespace

std::string result_line(const GdsioSettings& settings, const GdsioOutcome& outcome) {
  const Tally& tally = outcome.result.tally;
  const std::string depth = outcome.depth > 0 ? fmt::format(" IoDepth: {}", outcome.depth) : "";
  return fmt::format(
      "IoType: {} XferType: {} Threads: {}{} DataSetSize: {}/{}(KiB) IOSize: {}(KiB) Throughput: {:.6f} GiB/sec, "
      "Avg_Latency: {:.6f} usecs ops: {} total_time {:.6f} secs\n",
      operation_name(outcome), transfer_name(settings.transfer), outcome.threads, depth, tally.bytes / 1024,
      outcome.data_bytes / 1024, io_size(settings.io), throughput(outcome.result), average_us(tally), tally.operations,
      outcome.result.seconds);
}

std::string path_lines(const GdsioSettings& settings, const GdsioOutcome& outcome) {
  if (!settings.calls_cufile()) {
    return fmt::format("Path: none of the library's: -x {} moves the bytes with {} and its own copies\n",
                       static_cast<unsigned>(settings.transfer), outcome.is_write ? "pwrite" : "pread");
  }
  std::uint64_t total = 0;
  for (const Counter& way : outcome.ways) total += bytes_of(way);
  std::string text;
  for (const Counter& way : outcome.ways) {
    text += fmt::format("Path: {} {:.1f}% ({}: {})\n", penstock_path_name(way.path),
                        100 * static_cast<double>(bytes_of(way)) / static_cast<double>(total),
                        penstock_reason_name(way.reason), penstock_reason_sentence(way.reason));
  }
  return text;
}

Json outcome_json(const GdsioSettings& settings, const GdsioOutcome& outcome) {
  const Tally& tally = outcome.result.tally;
  Json json = {{"io_type", operation_name(outcome)},
               {"xfer_type", transfer_name(settings.transfer)},
               {"threads", outcome.threads},
               {"io_depth", outcome.depth > 0 ? Json(outcome.depth) : Json()},
               {"bytes", tally.bytes},
               {"data_set_bytes", outcome.data_bytes},
               {"io_bytes", {settings.io.smallest, settings.io.largest, settings.io.step}},
               {"gib_per_s", throughput(outcome.result)},
               {"average_latency_us", average_us(tally)},
               {"p99_latency_us", static_cast<double>(tally.latency_ns.quantile(0.99)) / 1e3},
               {"operations", tally.operations},
               {"seconds", outcome.result.seconds},
               {"cpu_seconds", outcome.result.cpu_seconds},
               {"interrupted", outcome.result.was_interrupted},
               {"paths", Json::array()}};
  for (const Counter& way : outcome.ways) {
    json["paths"].push_back({{"path", penstock_path_name(way.path)},
                             {"reason", penstock_reason_name(way.reason)},
                             {"bytes", bytes_of(way)}});
  }
  return json;
}

}  // namespace penstock::tools
