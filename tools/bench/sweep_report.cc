// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include "tools/bench/sweep.h"
#include "tools/bench/words.h"
#include "tools/common/table.h"

namespace penstock::tools {
namespace {

// A row of every form of a sweep's results.
struct Row {
  Estimate rate;
  bool is_with_fsync;
  double iops;
  Latency latency;
  double cpu_per_gb;
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
          fmt::format("{}", fmt::join(remarks, " "))};
}

std::string gb(double bytes) { return fmt::format("{:.4g}", bytes / 1e9); }

}  // namespace

Text sweep_table(const Sweep& sweep) {
  std::vector<std::string> columns;
  for (const Axis& axis : sweep.axes) columns.push_back(">" + axis.name);
  for (const char* name : {">GB/s", ">95 % from", ">to", ">IOPS", ">p50 us", ">p99 us", ">CPU s/GB", "remarks"}) {
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
          fmt::format("{:.1f}", row.latency.p99), fmt::format("{:.3f}", row.cpu_per_gb), row.remarks}) {
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
  text += "gb_per_s,low,high,iops,latency_p50_us,latency_p99_us,cpu_seconds_per_gb,remarks\n";
  for (const Cell& cell : sweep.cells) {
    const Row row = row_of(cell);
    for (const std::string& value : cell.values) text += value + ",";
    const std::string interval =
        row.rate.has_interval() ? fmt::format("{},{}", row.rate.low / 1e9, row.rate.high / 1e9) : ",";
    text += fmt::format("{},{},{},{},{},{},{}\n", row.rate.rate / 1e9, interval, row.iops, row.latency.p50,
                        row.latency.p99, row.cpu_per_gb, row.remarks);
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
