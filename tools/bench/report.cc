// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "facts/environment.h"
#include "tools/common/direct_answer.h"
#include "tools/common/failure.h"
#include "tools/common/machine_use.h"
#include "tools/common/page.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

// A rate with its interval: "1.230 GB/s (95 %: 1.210 to 1.250)".
std::string rate_text(const Estimate& told) {
  std::string text = fmt::format("{:.3f} GB/s", told.rate / 1e9);
  if (told.has_interval()) text += fmt::format(" (95 %: {:.3f} to {:.3f})", told.low / 1e9, told.high / 1e9);
  return text;
}

const char* opened(const BenchSettings& settings) {
  if (settings.direct) return "opened with O_DIRECT: around the page cache";
  if (settings.buffered) return "opened buffered: always through the page cache";
  return settings.is_write() ? "opened as usual: through the page cache"
                             : "opened as usual: large reads of what is not cached go around the page cache";
}

std::string length(const BenchSettings& settings) {
  if (settings.repeat > 0 && settings.seconds > 0)
    return fmt::format("{} times for {:g} s", settings.repeat, settings.seconds / settings.repeat);
  if (settings.repeat > 0)
    return fmt::format("the whole size {} time{}", settings.repeat, settings.repeat > 1 ? "s" : "");
  if (settings.seconds > 0) return fmt::format("for {:g} s", settings.seconds);
  return settings.verify ? "the whole size once" : "the whole size, over and over until the rate is known";
}

std::string what(const BenchOutcome& outcome) {
  const std::size_t count = outcome.files.size();
  const std::string files = count == 1 ? "" : fmt::format("{} files, ", count);
  return fmt::format("{} of {} ({}{}), {} from offset {}", outcome.settings.operation, outcome.settings.label(), files,
                     outcome.file_system, format_size(outcome.size), outcome.offset);
}

void print_paths(const Tally& tally) {
  for (const auto& [key, way] : tally.chosen) {
    if (way.bytes == 0) continue;
    print("path: {}  {}\n", path_sentence(key.first, key.second, way.refused_path), format_size(way.bytes));
  }
  print("{}", Text(path_note(tally.path_reason)));
}

void print_rate(const Measured& measured) {
  const JobResult& result = measured.result;
  const Estimate told = measured.rate();
  if (measured.with_fsync.empty()) {
    print("rate: {}, {:.3f} GiB/s, {:.0f} IOPS\n", rate_text(told), told.rate / static_cast<double>(1 << 30),
          per_second(result.tally.operations, result.seconds));
  } else {
    print("rate: {} with fsync; without it {}, {:.0f} IOPS\n", rate_text(measured.rate_with_fsync()), rate_text(told),
          per_second(result.tally.operations, result.seconds));
    print("fsync: {:.3f} s in all, behind {}\n", measured.flush_seconds,
          measured.passes > 1 ? fmt::format("each of {} passes", measured.passes) : "the last write");
  }
  if (told.batches.size() < 2) return;
  const auto [least, most] = std::minmax_element(told.batches.begin(), told.batches.end());
  print("spread: {:.3f} to {:.3f} GB/s, median {:.3f}, in {} stretches of {}\n", *least / 1e9, *most / 1e9,
        median(told.batches) / 1e9, told.batches.size(),
        format_duration(result.seconds / static_cast<double>(told.batches.size())));
}

void print_latency(const Tally& tally, unsigned depth) {
  const Latency told = latency_of(tally);
  print("latency in us: min {:.1f}, mean {:.1f}, p50 {:.1f}, p90 {:.1f}, p99 {:.1f}, p99.9 {:.1f}, max {:.1f}\n",
        told.least, told.mean, told.p50, told.p90, told.p99, told.p99_9, told.most);
  if (depth > 1)
    print("  with {} requests in flight for each thread, this includes their waiting for each other\n", depth);
}

void print_histogram(const Tally& tally) {
  constexpr double kWidth = 50;
  const auto bars = tally.latency_ns.bars(24);
  std::uint64_t most = 1;
  for (const auto& bar : bars) most = std::max(most, bar.count);
  Table table({">from us", ">below us", ">operations", ""});
  for (const auto& bar : bars) {
    const double length = kWidth * static_cast<double>(bar.count) / static_cast<double>(most);
    table.add({fmt::format("{:.1f}", static_cast<double>(bar.from) / 1e3),
               fmt::format("{:.1f}", static_cast<double>(bar.below) / 1e3), fmt::format("{}", bar.count),
               std::string(static_cast<std::size_t>(std::ceil(length)), '#')});
  }
  print("{}", table.text());
}

void print_moved(const Measured& measured) {
  const Tally& tally = measured.result.tally;
  print("moved: {} in {:.3f} s, {} operations; {} O_DIRECT, {} page cache{}\n", format_size(tally.bytes),
        measured.result.seconds, tally.operations, format_size(tally.direct_bytes), format_size(tally.cached_bytes),
        measured.drive_bytes ? fmt::format("; {} read from drives", format_size(*measured.drive_bytes)) : "");
}

// The first thing about the file that certainly makes the CPU copy.
std::string not_direct(const OpenFile& file, bool is_write) try {
  const DirectAnswer answer = ask_direct(file.fd.get(), {is_write ? core::Op::write : core::Op::read, 0, 0, ""});
  for (const core::Finding& finding : answer.report.findings) {
    const bool is_sure = finding.certainty == core::Certainty::certain;
    if (is_sure && finding.effect() == core::Effect::copied)
      return fmt::format("{}; {}", finding.sentence(), finding.remedy());
  }
  return "";
} catch (const Failure&) {
  return "";  // Without an answer, the report has one warning less.
}

const char* descriptor(const BenchSettings& settings) {
  return settings.direct ? "O_DIRECT" : settings.buffered ? "buffered" : "automatic";
}

Json settings_json(const BenchOutcome& outcome) {
  const BenchSettings& settings = outcome.settings;
  return {{"file", settings.label()},
          {"files", outcome.files},
          {"file_system", outcome.file_system},
          {"rw", settings.operation},
          {"block_size", settings.block_size},
          {"offset", outcome.offset},
          {"size", outcome.size},
          {"threads", settings.threads},
          {"depth", settings.depth},
          {"seconds_max", settings.seconds},
          {"repeat", settings.repeat},
          {"descriptor", descriptor(settings)},
          {"memory", settings.memory},
          {"registered", settings.register_memory},
          {"verify", settings.verify},
          {"seed", settings.seed},
          {"require", settings.require},
          {"warm", settings.warm},
          {"drop_cache", settings.drop_cache},
          {"environment", library_settings(settings)}};
}

// In the JSON, low and high are the ends of the 95 % interval, null if there is none.
Json estimate_json(const Estimate& told) {
  if (told.batches.empty()) return nullptr;
  Json batches = Json::array();
  for (const double batch : told.batches) batches.push_back(batch / 1e9);
  return {{"gb_per_s", told.rate / 1e9},
          {"low", told.has_interval() ? Json(told.low / 1e9) : Json()},
          {"high", told.has_interval() ? Json(told.high / 1e9) : Json()},
          {"degrees_of_freedom", told.degrees},
          {"drift", told.drift},
          {"stretches", batches}};
}

Json latency_json(const Tally& tally) {
  const Latency told = latency_of(tally);
  return {{"min", told.least}, {"mean", told.mean},   {"p50", told.p50}, {"p90", told.p90},
          {"p99", told.p99},   {"p99.9", told.p99_9}, {"max", told.most}};
}

Json histogram_json(const Tally& tally) {
  Json bars = Json::array();
  for (const auto& bar : tally.latency_ns.bars()) {
    bars.push_back({{"from_us", static_cast<double>(bar.from) / 1e3},
                    {"below_us", static_cast<double>(bar.below) / 1e3},
                    {"operations", bar.count}});
  }
  return bars;
}

Json result_json(const Measured& measured) {
  const JobResult& result = measured.result;
  const std::optional<double> interrupts = interrupts_of(measured);
  Json json = {{"bytes", result.tally.bytes},
               {"operations", result.tally.operations},
               {"seconds", result.seconds},
               {"gb_per_s", per_second(result.tally.bytes, result.seconds) / 1e9},
               {"gib_per_s", per_second(result.tally.bytes, result.seconds) / static_cast<double>(1 << 30)},
               {"iops", per_second(result.tally.operations, result.seconds)},
               {"rate", estimate_json(measured.rate())},
               {"with_fsync", estimate_json(measured.rate_with_fsync())},
               {"passes", measured.passes},
               {"latency_us", latency_json(result.tally)},
               {"cpu_seconds", result.cpu_seconds},
               {"cpu_seconds_per_gb", cpu_per_gigabyte(result)},
               {"interrupts_per_gb", interrupts ? Json(*interrupts) : Json()},
               {"cpu_share_of_others", measured.share_of_others()},
               {"direct_bytes", result.tally.direct_bytes},
               {"cached_bytes", result.tally.cached_bytes},
               {"interrupted", result.was_interrupted}};
  json["drive_bytes"] = measured.drive_bytes ? Json(*measured.drive_bytes) : Json();
  json["flush_seconds"] = measured.with_fsync.empty() ? Json() : Json(measured.flush_seconds);
  json["verified_bytes"] = measured.verified_bytes ? Json(*measured.verified_bytes) : Json();
  return json;
}

}  // namespace

BenchOutcome outcome_of(const Bench& bench) {
  BenchOutcome outcome;
  outcome.settings = bench.settings();
  for (const OpenFile& file : bench.target().files) outcome.files.push_back(file.path);
  outcome.offset = bench.target().ranges[0].begin;
  outcome.size = bench.target().size();
  outcome.block_count = bench.target().block_count();
  outcome.file_system = bench.file_info().file_system;
  outcome.direct_align = bench.file_info().direct_offset_align;
  outcome.not_direct = not_direct(bench.target().files[0], bench.settings().is_write());
  if (bench.settings().on_device()) {
    outcome.device = device_line(bench.session().raw(), bench.settings().gpu);
    outcome.device_facts = device_json(bench.session().raw(), bench.settings().gpu);
  }
  return outcome;
}

std::uint64_t bytes_not_by(const Tally& tally, int path) {
  std::uint64_t bytes = 0;
  for (std::size_t other = 0; other < tally.bytes_by_path.size(); ++other) {
    if (static_cast<int>(other) != path) bytes += tally.bytes_by_path[other];
  }
  return bytes;
}

void print_settings(const BenchOutcome& outcome) {
  const BenchSettings& settings = outcome.settings;
  print("bench: {}\n", what(outcome));
  print("  block {}, depth {}{}, {} thread{}, {}\n", format_size(settings.block_size), settings.depth,
        settings.depth == 1 ? " (synchronous)" : "", settings.threads, settings.threads == 1 ? "" : "s",
        length(settings));
  print("  {}\n", opened(settings));
  print("  memory {}{}, seed {}{}{}{}\n", settings.memory, settings.register_memory ? ", registered" : "",
        settings.seed, settings.verify ? ", verified" : "", settings.warm ? ", cache warmed" : "",
        settings.drop_cache ? ", cache dropped (best effort: the kernel may keep pages)" : "");
  for (const std::string& entry : library_settings(settings)) print("  {}\n", entry);
  print("{}\n", outcome.device.empty() ? "memory: host; no device takes part" : outcome.device);
}

void print_result(const BenchOutcome& outcome, const std::vector<std::string>& usable_paths) {
  const Measured& measured = outcome.measured;
  if (measured.result.was_interrupted) print("interrupted; up to then:\n");
  print_paths(measured.result.tally);
  print_moved(measured);
  if (measured.result.tally.bytes > 0) {
    print_rate(measured);
    print_latency(measured.result.tally, outcome.settings.depth);
    if (outcome.settings.histogram) print_histogram(measured.result.tally);
    print("cpu: {:.3f} s, {:.3f} s per GB\n", measured.result.cpu_seconds, cpu_per_gigabyte(measured.result));
    if (const auto count = interrupts_of(measured)) print("interrupts: {:.0f} per GB, of the whole machine\n", *count);
  }
  if (measured.verified_bytes) {
    print("verified: {}, every byte as expected; the rates above include making or checking it\n",
          format_size(*measured.verified_bytes));
  }
  for (const Warning& warning : warnings_of(outcome)) {
    Page page;
    page.wrap("warning: ", warning.sentence);
    print("{}", Text(page.text()));
  }
  if (usable_paths.size() < 2) return;
  Page page;
  page.wrap("", fmt::format("this is one of {} ways ({}): 'penstock bench --require PATH FILE' measures another, "
                            "host by '--memory host', and 'penstock bench --every-path --dir FOLDER' all with a file "
                            "of its own",
                            usable_paths.size(), fmt::join(usable_paths, ", ")));
  print("{}", Text(page.text()));
}

Json bench_json(const BenchOutcome& outcome) {
  const Tally& tally = outcome.measured.result.tally;
  Json json = {{"schema", 1},
               {"settings", settings_json(outcome)},
               {"device", outcome.device_facts},
               {"result", result_json(outcome.measured)}};
  json["paths"] = Json::array();
  for (const auto& [key, way] : tally.chosen) {
    if (way.bytes == 0) continue;
    json["paths"].push_back(path_json(key.first, key.second, way.refused_path));
    json["paths"].back()["bytes"] = way.bytes;
  }
  json["path_reason"] = penstock_reason_name(tally.path_reason);
  if (outcome.settings.histogram) json["result"]["latency_histogram"] = histogram_json(tally);
  for (std::uint32_t path = 0; path < penstock_path_count(); ++path) {
    json["bytes_by_path"][penstock_path_name(static_cast<int>(path))] = tally.bytes_by_path[path];
  }
  json["warnings"] = Json::array();
  for (const Warning& warning : warnings_of(outcome)) {
    json["warnings"].push_back({{"name", warning.name}, {"sentence", warning.sentence}});
  }
  return json;
}

Latency latency_of(const Tally& tally) {
  if (tally.operations == 0) return {};
  const auto at = [&](double quantile) { return static_cast<double>(tally.latency_ns.quantile(quantile)) / 1e3; };
  return {static_cast<double>(tally.latency_least_ns) / 1e3,
          static_cast<double>(tally.latency_sum_ns) / 1e3 / static_cast<double>(tally.operations),
          at(0.5),
          at(0.9),
          at(0.99),
          at(0.999),
          static_cast<double>(tally.latency_most_ns) / 1e3};
}

double per_second(std::uint64_t amount, double seconds) {
  return seconds > 0 ? static_cast<double>(amount) / seconds : 0;
}

double cpu_per_gigabyte(const JobResult& result) {
  return result.tally.bytes > 0 ? result.cpu_seconds / gigabytes(result.tally.bytes) : 0;
}

std::optional<double> interrupts_of(const Measured& measured) {
  return interrupts_per_gigabyte(measured.interrupts, measured.result.tally.bytes);
}

std::vector<std::string> library_settings(const BenchSettings& settings) {
  std::vector<std::string> all;
  for (const auto& [name, value] : facts::environment_settings().known)
    all.push_back(fmt::format("{}={}", name, value));
  for (const auto& [name, value] : settings.library) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

std::vector<Warning> warnings_of(const BenchOutcome& outcome) {
  const Tally& tally = outcome.measured.result.tally;
  Evidence evidence;
  evidence.bytes = tally.bytes;
  evidence.direct_bytes = tally.direct_bytes;
  evidence.cached_bytes = tally.cached_bytes;
  evidence.drive_bytes = outcome.measured.drive_bytes;
  evidence.block_count = outcome.block_count;
  evidence.direct_align = outcome.direct_align;
  evidence.not_direct = outcome.not_direct;
  evidence.other_for_cufile = other_for_cufile();
  evidence.share_of_others = outcome.measured.share_of_others();
  evidence.harm_by_others = outcome.measured.harm_by_others();
  evidence.estimate = outcome.measured.rate();
  return warnings_of(outcome.settings, evidence);
}

}  // namespace penstock::tools
