// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/report.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "tools/common/environment.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

double per_second(std::uint64_t amount, double seconds) {
  return seconds > 0 ? static_cast<double>(amount) / seconds : 0;
}

double cpu_per_gigabyte(const JobResult& result) {
  return result.tally.bytes > 0 ? result.cpu_seconds / gigabytes(result.tally.bytes) : 0;
}

double latency_us(const JobResult& result, double quantile) {
  return static_cast<double>(result.tally.latency_ns.quantile(quantile)) / 1e3;
}

const char* descriptor(const BenchSettings& settings) {
  return settings.direct ? "O_DIRECT" : settings.buffered ? "buffered" : "automatic";
}

// What the environment sets for the library, since it changes the result.
std::vector<std::string> environment() {
  std::vector<std::string> settings;
  for (const auto& [name, value] : environment_settings().known) settings.push_back(fmt::format("{}={}", name, value));
  return settings;
}

template <typename Visit>
void for_each_reason(const Tally& tally, Visit visit) {
  for (const auto& [key, way] : tally.chosen) {
    if (way.bytes > 0) visit(key.first, key.second, way.refused_path, way.bytes);
  }
}

Json settings_json(const BenchOutcome& outcome) {
  const BenchSettings& settings = outcome.settings;
  return {{"file", settings.file},
          {"file_system", outcome.file_system},
          {"rw", settings.operation},
          {"block_size", settings.block_size},
          {"offset", outcome.range.begin},
          {"size", outcome.range.size},
          {"threads", settings.threads},
          {"depth", settings.depth},
          {"seconds_max", settings.seconds},
          {"descriptor", descriptor(settings)},
          {"memory", settings.memory},
          {"registered", settings.register_memory},
          {"verify", settings.verify},
          {"seed", settings.seed},
          {"require", settings.require},
          {"warm", settings.warm},
          {"drop_cache", settings.drop_cache},
          {"environment", environment()}};
}

Json result_json(const BenchOutcome& outcome) {
  const JobResult& result = outcome.result;
  Json json = {
      {"bytes", result.tally.bytes},
      {"operations", result.tally.operations},
      {"seconds", result.seconds},
      {"gb_per_s", per_second(result.tally.bytes, result.seconds) / 1e9},
      {"gib_per_s", gibibytes(result.tally.bytes) / result.seconds},
      {"iops", per_second(result.tally.operations, result.seconds)},
      {"latency_us",
       {{"p50", latency_us(result, 0.5)}, {"p99", latency_us(result, 0.99)}, {"p99.9", latency_us(result, 0.999)}}},
      {"cpu_seconds", result.cpu_seconds},
      {"cpu_seconds_per_gb", cpu_per_gigabyte(result)},
      {"direct_bytes", result.tally.direct_bytes},
      {"cached_bytes", result.tally.cached_bytes},
      {"interrupted", result.was_interrupted}};
  json["flush_seconds"] = outcome.flush_seconds ? Json(*outcome.flush_seconds) : Json();
  json["verified_bytes"] = outcome.verified_bytes ? Json(*outcome.verified_bytes) : Json();
  return json;
}

}  // namespace

std::uint64_t bytes_not_by(const Tally& tally, int path) {
  std::uint64_t bytes = 0;
  for (std::size_t other = 0; other < tally.bytes_by_path.size(); ++other) {
    if (static_cast<int>(other) != path) bytes += tally.bytes_by_path[other];
  }
  return bytes;
}

void print_settings(const BenchOutcome& outcome) {
  const BenchSettings& settings = outcome.settings;
  print("bench: {} of {} ({}), {} from offset {}\n", settings.operation, settings.file, outcome.file_system,
        format_size(outcome.range.size), outcome.range.begin);
  print("  block {}, depth {}{}, {} thread{}, {}, {}\n", format_size(settings.block_size), settings.depth,
        settings.depth == 1 ? " (synchronous)" : "", settings.threads, settings.threads == 1 ? "" : "s",
        settings.seconds > 0 ? fmt::format("for {} s", settings.seconds) : "the whole size once",
        fmt::format("descriptor {}", descriptor(settings)));
  print("  memory {}{}, seed {}{}{}{}\n", settings.memory, settings.register_memory ? ", registered" : "",
        settings.seed, settings.verify ? ", verified" : "", settings.warm ? ", cache warmed" : "",
        settings.drop_cache ? ", cache dropped (best effort: the kernel may keep pages)" : "");
  for (const std::string& entry : environment()) print("  {}\n", entry);
  print("{}\n", outcome.device.empty() ? "memory: host; no device takes part" : outcome.device);
}

void print_result(const BenchOutcome& outcome) {
  const JobResult& result = outcome.result;
  const Tally& tally = result.tally;
  if (result.was_interrupted) print("interrupted; up to then:\n");
  for_each_reason(tally, [](int path, int reason, int refused, std::uint64_t bytes) {
    print("path: {}  {}\n", path_sentence(path, reason, refused), format_size(bytes));
  });
  print("{}", Text(path_note(tally.path_reason)));
  print("moved: {} in {:.3f} s, {} operations; {} O_DIRECT, {} page cache\n", format_size(tally.bytes), result.seconds,
        tally.operations, format_size(tally.direct_bytes), format_size(tally.cached_bytes));
  print("rate: {:.3f} GB/s ({:.3f} GiB/s), {:.0f} IOPS\n", per_second(tally.bytes, result.seconds) / 1e9,
        gibibytes(tally.bytes) / result.seconds, per_second(tally.operations, result.seconds));
  print("latency: p50 {:.1f} us, p99 {:.1f} us, p99.9 {:.1f} us\n", latency_us(result, 0.5), latency_us(result, 0.99),
        latency_us(result, 0.999));
  print("cpu: {:.3f} s, {:.3f} s per GB\n", result.cpu_seconds, cpu_per_gigabyte(result));
  if (outcome.flush_seconds) {
    print("fsync: {:.3f} s more; with it {:.3f} GB/s\n", *outcome.flush_seconds,
          per_second(tally.bytes, result.seconds + *outcome.flush_seconds) / 1e9);
  }
  if (outcome.verified_bytes) {
    print("verified: {}, every byte as expected; the rates above include making or checking it\n",
          format_size(*outcome.verified_bytes));
  }
}

Json bench_json(const BenchOutcome& outcome) {
  Json json = {
      {"settings", settings_json(outcome)}, {"device", outcome.device_facts}, {"result", result_json(outcome)}};
  Json paths = Json::array();
  for_each_reason(outcome.result.tally, [&](int path, int reason, int refused, std::uint64_t bytes) {
    paths.push_back(path_json(path, reason, refused));
    paths.back()["bytes"] = bytes;
  });
  json["paths"] = paths;
  json["path_reason"] = penstock_reason_name(outcome.result.tally.path_reason);
  for (std::uint32_t path = 0; path < penstock_path_count(); ++path) {
    json["bytes_by_path"][penstock_path_name(static_cast<int>(path))] = outcome.result.tally.bytes_by_path[path];
  }
  return json;
}

}  // namespace penstock::tools
