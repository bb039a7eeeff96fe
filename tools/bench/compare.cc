// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/bench/report.h"
#include "tools/bench/settings.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/interval.h"
#include "tools/common/page.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

// A result that `penstock bench --json` wrote, read back for a comparison.
struct StoredResult {
  std::string file;
  Estimate estimate;  // Has no batches.
  bool is_with_fsync = false;
  Json settings;
};

constexpr std::size_t kSizeMost = std::size_t{64} << 20;

// The member of an object. Null if the name is missing, or the value is no object.
const Json& at(const Json& object, const char* name) {
  static const Json kNothing;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : kNothing;
}

double figure(const Json& rate, const char* name, const std::string& file) {
  const Json& value = at(rate, name);
  // A very wide interval ends at 0.
  const double least = std::string_view(name) == "low" ? 0 : 1e-12;
  if (value.is_number() && value.get<double>() >= least && value.get<double>() < 1e12) return value.get<double>();
  throw Failure(fmt::format("{}: its rate has no {}: it was measured too shortly, or by an older penstock; measure it "
                            "again, with --time 5",
                            file, name),
                kUsage);
}

// Null if it is no JSON.
Json read_json(const std::string& file) {
  const std::string text = read_bounded(file, kSizeMost);
  Json json = text.size() > kSizeMost ? Json() : Json::parse(text, nullptr, false);
  return json.is_discarded() ? Json() : json;
}

// Refuses a file that is no such result, and a rate without an interval.
StoredResult stored_result(const std::string& file, const Json& json) {
  const Json& result = at(json, "result");
  if (!result.is_object()) {
    throw Failure(file +
                      ": it is no result of 'penstock bench --json' or of 'penstock run --report=FILE.json', and "
                      "--compare takes two of one of these",
                  kUsage);
  }
  StoredResult stored;
  stored.file = file;
  stored.settings = at(json, "settings");
  stored.is_with_fsync = at(result, "with_fsync").is_object() && at(at(result, "with_fsync"), "low").is_number();
  const Json& rate = at(result, stored.is_with_fsync ? "with_fsync" : "rate");
  stored.estimate.low = figure(rate, "low", file) * 1e9;
  stored.estimate.high = figure(rate, "high", file) * 1e9;
  stored.estimate.rate = figure(rate, "gb_per_s", file) * 1e9;
  stored.estimate.degrees = figure(rate, "degrees_of_freedom", file);
  return stored;
}

// Says whether `penstock run --report=FILE` wrote it.
bool is_run(const Json& json) {
  return at(json, "program").is_array() && at(json, "seconds").is_number() && at(json, "seconds").get<double>() > 0;
}

std::uint64_t number(const Json& object, const char* name) {
  const Json& value = at(object, name);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

// Says which path took how much, and what the program read and wrote by calls of its own: "4.00 GiB read by bounce".
std::string ways_of(const Json& run) {
  std::map<std::string, std::uint64_t> ways;
  for (const Json& report : at(run, "reports")) {
    for (const Json& way : at(report, "ways")) {
      if (!at(way, "path").is_string() || !at(way, "op").is_string()) continue;
      const bool is_read = at(way, "op").get<std::string>() == "read";
      ways[(is_read ? "read by " : "written by ") + at(way, "path").get<std::string>()] += number(way, "bytes");
    }
  }
  const Json& others = at(run, "without_cufile");
  ways["read without cuFile"] += number(others, "read_call_bytes");
  ways["written without cuFile"] += number(others, "write_call_bytes");
  std::string text;
  for (const auto& [way, bytes] : ways) {
    if (bytes > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_size(bytes), way);
  }
  return text.empty() ? "nothing" : text;
}

// Compares one's own program before and after a change.
int compare_runs(const BenchSettings& settings, const Json& before, const Json& after) {
  const double ratio = at(after, "seconds").get<double>() / at(before, "seconds").get<double>();
  const bool is_same = before["program"] == after["program"];
  if (settings.json) {
    print_json({{"schema", 1},
                {"files", settings.compare},
                {"same_program", is_same},
                {"seconds", {before["seconds"], after["seconds"]}},
                {"ratio", ratio}});
    return kSuccess;
  }
  Table table({"run", ">seconds", ">exit code", "moved"});
  for (const auto& [file, run] : {std::pair{settings.compare[0], before}, std::pair{settings.compare[1], after}}) {
    table.add({file, fmt::format("{:.2f}", run["seconds"].get<double>()), std::to_string(number(run, "exit_code")),
               ways_of(run)});
  }
  print("{}", table.text());
  if (!is_same) print("different programs, or other arguments\n");
  print("{} took {:.2f} of the time of {}. Each is one run, and what chance adds is not known: run both again.\n",
        settings.compare[1], ratio, settings.compare[0]);
  return kSuccess;
}

// A line for each setting that differs and changes what is measured: "block_size: 4096 against 1048576".
std::vector<std::string> differences_of(const StoredResult& a, const StoredResult& b) {
  std::vector<std::string> all;
  if (a.is_with_fsync != b.is_with_fsync) all.emplace_back("one rate includes fsync, the other does not");
  for (const char* name : {"rw", "file", "file_system", "block_size", "offset", "size", "threads", "depth",
                           "descriptor", "memory", "registered", "verify", "warm", "drop_cache", "environment"}) {
    const auto text = [](const Json& value) { return value.dump(-1, ' ', true, Json::error_handler_t::replace); };
    const Json &first = at(a.settings, name), &second = at(b.settings, name);
    if (first != second) all.push_back(fmt::format("{}: {} against {}", name, text(first), text(second)));
  }
  return all;
}

constexpr unsigned kPairs = 10;
constexpr double kTurnSeconds = 0.5;

const char* verdict(const Ratio& ratio) { return ratio.differs() ? "differs" : "no difference found"; }

Json ratio_json(const Ratio& ratio) {
  return {{"ratio", ratio.ratio},
          {"low", ratio.low},
          {"high", ratio.high},
          {"method", ratio.method},
          {"verdict", verdict(ratio)}};
}

void print_ratio(const std::string& a, const std::string& b, const Ratio& ratio) {
  Page page;
  page.wrap("", fmt::format("{}: '{}' is {:.3f} times as fast as '{}' (95 %: {:.3f} to {:.3f}), by {}", verdict(ratio),
                            b, ratio.ratio, a, ratio.low, ratio.high, ratio.method));
  print("{}", Text(page.text()));
}

// One of the two settings, and what was measured with it so far.
struct Side {
  Side(const BenchSettings& base, const std::string& words)
      : name(words), bench(variant_of(base, words)), outcome(outcome_of(bench)) {}

  // False if it was interrupted.
  bool take_turn(double seconds) {
    const Measured one = bench.turn(seconds);
    Measured& all = outcome.measured;
    all.add(one.result);
    all.samples.insert(all.samples.end(), one.samples.begin(), one.samples.end());
    all.with_fsync.insert(all.with_fsync.end(), one.with_fsync.begin(), one.with_fsync.end());
    all.flush_seconds += one.flush_seconds;
    all.passes += one.passes;
    all.wall_seconds += one.wall_seconds;
    all.others_seconds += one.others_seconds;
    if (one.drive_bytes) all.drive_bytes = all.drive_bytes.value_or(0) + *one.drive_bytes;
    rates.push_back(estimate(one.with_fsync.empty() ? one.samples : one.with_fsync).rate);
    return !one.result.was_interrupted;
  }

  std::string name;
  Bench bench;
  BenchOutcome outcome;
  std::vector<double> rates;  // The rate of each turn.
};

void print_sides(const Side& a, const Side& b) {
  Table table({"setting", ">GB/s median", ">min", ">max", ">p50 us", ">p99 us", ">CPU s/GB", "remarks"});
  for (const Side* side : {&a, &b}) {
    const Latency latency = latency_of(side->outcome.measured.result.tally);
    const auto [least, most] = std::minmax_element(side->rates.begin(), side->rates.end());
    std::vector<std::string> remarks;
    for (const Warning& warning : warnings_of(side->outcome)) remarks.emplace_back(warning.name);
    table.add({side->name, fmt::format("{:.3f}", median(side->rates) / 1e9), fmt::format("{:.3f}", *least / 1e9),
               fmt::format("{:.3f}", *most / 1e9), fmt::format("{:.1f}", latency.p50),
               fmt::format("{:.1f}", latency.p99),
               fmt::format("{:.3f}", cpu_per_gigabyte(side->outcome.measured.result)),
               fmt::format("{}", fmt::join(remarks, ", "))});
  }
  print("{}", table.text());
}

Json sides_json(const Side& a, const Side& b) {
  Json sides = Json::array();
  for (const Side* side : {&a, &b}) {
    Json one = bench_json(side->outcome);
    one["name"] = side->name;
    one["turns_gb_per_s"] = Json::array();
    for (const double rate : side->rates) one["turns_gb_per_s"].push_back(rate / 1e9);
    sides.push_back(std::move(one));
  }
  return sides;
}

// Takes turns, in which each pair goes in the other order than the one before, so that a drift favours neither side.
void take_turns(Side& a, Side& b, unsigned pairs, double seconds) {
  for (unsigned pair = 0; pair < pairs; ++pair) {
    Side& first = pair % 2 == 0 ? a : b;
    Side& second = pair % 2 == 0 ? b : a;
    if (!first.take_turn(seconds) || !second.take_turn(seconds)) throw Failure("interrupted");
  }
}

void check_sides(const BenchSettings& settings) {
  if (settings.pairs == 1)
    throw Failure("--pairs 1: expected 2 or more, since --compare has to tell a difference from chance", kUsage);
  for (const std::string& words : settings.compare) {
    if (variant_of(settings, words).is_write() && settings.create) {
      throw Failure("--compare writes to an existing file: leave --create out, and give --overwrite", kUsage);
    }
  }
}

}  // namespace

int compare_settings(const BenchSettings& settings) {
  check_sides(settings);
  Side a(settings, settings.compare[0]), b(settings, settings.compare[1]);
  const unsigned pairs = settings.pairs > 0 ? settings.pairs : kPairs;
  const double seconds = settings.seconds > 0 ? settings.seconds / (2 * pairs) : kTurnSeconds;
  if (!settings.json) {
    for (Side* side : {&a, &b}) {
      side->outcome.settings.repeat = pairs;
      side->outcome.settings.seconds = side->bench.goes_in_passes() ? 0 : seconds * pairs;
      print_settings(side->outcome);
    }
    flush_output();
  }
  if (!a.bench.warm_up() || !b.bench.warm_up()) throw Failure("interrupted");
  take_turns(a, b, pairs, seconds);
  const Ratio ratio = paired_ratio(a.rates, b.rates);
  if (settings.json) {
    print_json({{"schema", 1}, {"sides", sides_json(a, b)}, {"pairs", pairs}, {"comparison", ratio_json(ratio)}});
    return kSuccess;
  }
  print_sides(a, b);
  print_ratio(a.name, b.name, ratio);
  return kSuccess;
}

int compare_results(const BenchSettings& settings) {
  const Json before = read_json(settings.compare[0]), after = read_json(settings.compare[1]);
  if (is_run(before) && is_run(after)) return compare_runs(settings, before, after);
  const StoredResult a = stored_result(settings.compare[0], before), b = stored_result(settings.compare[1], after);
  const Ratio ratio = welch_ratio(a.estimate, b.estimate);
  const std::vector<std::string> differences = differences_of(a, b);
  if (settings.json) {
    print_json({{"schema", 1},
                {"files", settings.compare},
                {"different_settings", differences},
                {"comparison", ratio_json(ratio)}});
    return kSuccess;
  }
  Table table({"results", ">GB/s", ">95 % from", ">to", "of"});
  for (const StoredResult* one : {&a, &b}) {
    table.add({one->file, fmt::format("{:.3f}", one->estimate.rate / 1e9),
               fmt::format("{:.3f}", one->estimate.low / 1e9), fmt::format("{:.3f}", one->estimate.high / 1e9),
               one->is_with_fsync ? "writes with fsync" : "all bytes"});
  }
  print("{}", table.text());
  for (const std::string& difference : differences) print("different settings: {}\n", difference);
  print_ratio(a.file, b.file, ratio);
  print(
      "Each file is one run: changes from run to run are in neither interval. With two settings, --compare sees "
      "them.\n");
  return kSuccess;
}

}  // namespace penstock::tools
