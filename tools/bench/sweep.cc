// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tools/bench/settings.h"
#include "tools/common/failure.h"
#include "tools/common/plots.h"
#include "tools/common/table.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kCellsMost = 1000;
constexpr double kSecondsLeast = 1, kSecondsMost = 2;  // The duration of one cell.

std::vector<Axis> axes_of(const std::vector<std::string>& words) {
  std::vector<Axis> axes;
  std::size_t cells = 1;
  for (const std::string& word : words) {
    Axis axis = axis_of(word);
    const bool is_again = std::any_of(axes.begin(), axes.end(), [&](const Axis& one) { return one.name == axis.name; });
    if (is_again) throw Failure(fmt::format("--sweep: {} is given twice", axis.name), kUsage);
    cells *= axis.values.size();
    axes.push_back(std::move(axis));
    if (cells > kCellsMost) {
      throw Failure(fmt::format("--sweep: these are more than {} combinations; leave some out", kCellsMost), kUsage);
    }
  }
  return axes;
}

// One combination of settings. All are parsed before the first is measured, so that a slip in the last one shows at
// once.
struct Plan {
  std::vector<std::string> values;
  BenchSettings settings;
};

std::vector<Plan> plans_of(const BenchSettings& base, const std::vector<Axis>& axes) {
  std::vector<Plan> plans = {{{}, base}};
  for (const Axis& axis : axes) {
    std::vector<Plan> more;
    for (const Plan& plan : plans) {
      for (const std::string& value : axis.values) {
        more.push_back({plan.values, variant_of(plan.settings, axis.name + "=" + value)});
        more.back().values.push_back(value);
      }
    }
    plans = std::move(more);
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    plans[i].settings.seconds_least = kSecondsLeast;
    plans[i].settings.seconds_most = kSecondsMost;
    plans[i].settings.progress = fmt::format("{} of {}", i + 1, plans.size());
  }
  return plans;
}

// False if it was interrupted.
bool measure_cell(const Plan& plan, Sweep& sweep) {
  Bench bench(plan.settings);
  Cell cell{plan.values, outcome_of(bench)};
  cell.outcome.measured = bench.measure();
  const bool was_interrupted = cell.outcome.measured.result.was_interrupted;
  if (!was_interrupted) sweep.cells.push_back(std::move(cell));
  return !was_interrupted;
}

void print_head(const BenchSettings& settings, const std::vector<Plan>& plans) {
  if (settings.json || settings.csv) return;
  const BenchOutcome outcome = outcome_of(Bench(plans[0].settings));
  print("sweep: {} of {} ({}), {} combinations\n{}\n", settings.operation, settings.label(), outcome.file_system,
        plans.size(), outcome.device.empty() ? "memory: host; no device takes part" : outcome.device);
  flush_output();
}

// A row of every form of a sweep's results.
struct Row {
  Estimate rate;
  bool is_with_fsync;
  double iops;
  Latency latency;
  double cpu_per_gb;
  std::optional<double> interrupts_per_gb;
  std::string remarks;
};

Row row_of(const Cell& cell) {
  const Measured& measured = cell.outcome.measured;
  const bool fsync = !measured.with_fsync.empty();
  std::vector<std::string> remarks;
  for (const Warning& warning : warnings_of(cell.outcome)) remarks.emplace_back(warning.name);
  return {fsync ? measured.rate_with_fsync() : measured.rate(),
          fsync,
          per_second(measured.result.tally.operations, measured.result.seconds),
          latency_of(measured.result.tally),
          cpu_per_gigabyte(measured.result),
          interrupts_of(measured),
          fmt::format("{}", fmt::join(remarks, " "))};
}

std::string gb(double bytes) { return fmt::format("{:.4g}", bytes / 1e9); }

}  // namespace

Axis axis_of(const std::string& word) {
  const std::size_t equals = word.find('=');
  Axis axis{word.substr(0, equals), {}};
  for (std::size_t begin = equals; begin < word.size();) {
    const std::size_t end = std::min(word.find(',', begin + 1), word.size());
    const std::string value = word.substr(begin + 1, end - begin - 1);
    if (value.empty() || std::find(axis.values.begin(), axis.values.end(), value) != axis.values.end()) {
      axis.values.clear();
      break;
    }
    axis.values.push_back(value);
    begin = end;
  }
  if (axis.name.empty() || axis.values.empty()) {
    throw Failure(fmt::format("--sweep '{}': write NAME=VALUE,VALUE with different values, such as bs=4k,64k", word),
                  kUsage);
  }
  return axis;
}

int run_sweep(const BenchSettings& settings) {
  Sweep sweep;
  sweep.axes = axes_of(settings.sweep);
  const std::vector<Plan> plans = plans_of(settings, sweep.axes);
  Output output({settings.json, settings.html, settings.overwrite}, bench_page());
  print_head(settings, plans);
  bool is_whole = true;
  for (std::size_t i = 0; i < plans.size() && is_whole; ++i) is_whole = measure_cell(plans[i], sweep);
  Text text(settings.csv ? sweep_csv(sweep) : is_whole ? "" : "interrupted; up to then:\n");
  if (!settings.csv) text += sweep_table(sweep);
  output.show(text, sweep_json(sweep), settings.csv);
  return is_whole ? kSuccess : kFailed;
}

Text sweep_table(const Sweep& sweep) {
  std::vector<std::string> columns;
  for (const Axis& axis : sweep.axes) columns.push_back(">" + axis.name);
  for (const char* name :
       {">GB/s", ">95 % from", ">to", ">IOPS", ">p50 us", ">p99 us", ">CPU s/GB", ">interrupts/GB", "remarks"}) {
    columns.emplace_back(name);
  }
  Table table(columns);
  for (const Cell& cell : sweep.cells) {
    const Row row = row_of(cell);
    const bool is_known = row.rate.has_interval();
    std::vector<std::string> cells = cell.values;
    for (const std::string& text :
         {gb(row.rate.rate), is_known ? gb(row.rate.low) : "-", is_known ? gb(row.rate.high) : "-",
          fmt::format("{:.0f}", row.iops), fmt::format("{:.1f}", row.latency.p50),
          fmt::format("{:.1f}", row.latency.p99), fmt::format("{:.3f}", row.cpu_per_gb),
          row.interrupts_per_gb ? fmt::format("{:.0f}", *row.interrupts_per_gb) : "-", row.remarks}) {
      cells.push_back(text);
    }
    table.add(std::move(cells));
  }
  Text text = table.text();
  if (!sweep.cells.empty() && row_of(sweep.cells[0]).is_with_fsync) text += Text("Rates are those with fsync.\n");
  return text;
}

std::string sweep_csv(const Sweep& sweep) {
  std::string text;
  for (const Axis& axis : sweep.axes) text += axis.name + ",";
  text += "gb_per_s,low,high,iops,latency_p50_us,latency_p99_us,cpu_seconds_per_gb,interrupts_per_gb,remarks\n";
  for (const Cell& cell : sweep.cells) {
    const Row row = row_of(cell);
    for (const std::string& value : cell.values) text += value + ",";
    const std::string interval =
        row.rate.has_interval() ? fmt::format("{},{}", row.rate.low / 1e9, row.rate.high / 1e9) : ",";
    const std::string interrupts = row.interrupts_per_gb ? fmt::format("{}", *row.interrupts_per_gb) : "";
    text += fmt::format("{},{},{},{},{},{},{},{}\n", row.rate.rate / 1e9, interval, row.iops, row.latency.p50,
                        row.latency.p99, row.cpu_per_gb, interrupts, row.remarks);
  }
  return text;
}

Json sweep_json(const Sweep& sweep) {
  Json json = {{"schema", 1}, {"axes", Json::array()}, {"results", Json::array()}};
  for (const Axis& axis : sweep.axes) json["axes"].push_back({{"name", axis.name}, {"values", axis.values}});
  for (const Cell& cell : sweep.cells) {
    json["results"].push_back(bench_json(cell.outcome));
    json["results"].back()["combination"] = cell.values;
  }
  return json;
}

}  // namespace penstock::tools
