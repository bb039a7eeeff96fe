// SPDX-License-Identifier: Apache-2.0

#include "tools/suite/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/waiting.h"
#include "tools/common/page.h"
#include "tools/common/table.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

constexpr double kWide = 0.1;      // The report marks turns that differ by more.
constexpr double kShort_s = 0.05;  // A shorter time is mostly opening and closing.
constexpr double kCachedMuch = 0.5, kCachedLittle = 0.02;

model::Waiting waiting_of(const SuiteFound& found, double save_s) {
  return model::waiting_of(save_s, found.saves, kSuiteGpus * found.price);
}

std::string gain_text(const Ratio& gain, bool is_known) {
  if (!is_known) return fmt::format("{:.2f}", gain.ratio);
  return fmt::format("{:.2f} ({:.2f}-{:.2f})", gain.ratio, gain.low, gain.high);
}

std::string seconds_text(const SuiteTimes& times) {
  return fmt::format("{:.3g} ({:.3g}-{:.3g})", times.seconds(), times.least(), times.most());
}

Text measured_table(const SuiteFound& found) {
  std::vector<std::string> columns = {"workload", ">files", ">bytes"};
  for (const SuiteTimes& each : found.rows[0].ways) columns.push_back(">" + each.way + ", s");
  for (std::size_t i = 1; i < found.rows[0].ways.size(); ++i)
    columns.push_back(i == 1 ? ">times as fast" : ">the other library");
  columns.emplace_back(">published");
  Table table(columns);
  for (const SuiteRow& row : found.rows) {
    std::vector<std::string> cells = {row.workload->name, std::to_string(row.workload->files), format_size(row.bytes)};
    for (const SuiteTimes& each : row.ways) cells.push_back(seconds_text(each));
    for (std::size_t i = 1; i < row.ways.size(); ++i) cells.push_back(gain_text(row.gain(i), found.turns > 1));
    cells.push_back(fmt::format("{:.1f}", row.workload->published_without_s / row.workload->published_with_s));
    table.add(std::move(cells));
  }
  return table.text();
}

Text full_table(const SuiteFound& found) {
  Table table({"workload", ">without, s", ">with, s", ">published", ">published", ">waiting, h", ">with, h",
               ">waiting, $", ">with, $"});
  for (const SuiteRow& row : found.rows) {
    const double without = row.full_s(row.ways[0]), with = row.full_s(row.ways[1]);
    std::vector<std::string> cells = {row.workload->name, fmt::format("{:.1f}", without), fmt::format("{:.1f}", with),
                                      fmt::format("{:g}", row.workload->published_without_s),
                                      fmt::format("{:g}", row.workload->published_with_s)};
    for (const bool is_money : {false, true}) {
      for (const double seconds : {without, with}) {
        const model::Waiting waiting = waiting_of(found, seconds);
        cells.push_back(row.workload->is_load ? "-" : fmt::format("{:.1f}", is_money ? waiting.money : waiting.hours));
      }
    }
    table.add(std::move(cells));
  }
  return table.text();
}

std::string path_text(const Tally& tally) {
  std::string text;
  for (int path = 0; path < static_cast<int>(penstock_path_count()); ++path) {
    const std::uint64_t bytes = tally.bytes_by_path[static_cast<std::size_t>(path)];
    if (bytes == 0) continue;
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", penstock_path_name(path),
                        100 * static_cast<double>(bytes) / static_cast<double>(tally.bytes));
  }
  return text;
}

std::vector<std::string> notes_of(const SuiteFound& found) {
  std::vector<std::string> notes = {
      fmt::format("At full size: what was measured, times {:g}. That holds where a drive has no cache that these bytes "
                  "fit into and "
                  "the full ones do not. Published are the times of other machines: {}, {}.",
                  1 / found.scale, workloads()[0].hardware, workloads()[2].hardware)};
  notes.push_back(fmt::format("Hours and dollars are of {:g} saves that {:g} GPUs wait for, at ${:g} a GPU-hour.",
                              found.saves, kSuiteGpus, found.price));
  notes.emplace_back(
      "'without': 16 MiB at a time by write(2) or read(2) and a copy, a thread for each GPU of the published machine, "
      "flushed at the end, as all ways are. Their GPUs are one here.");
  if (!found.has_gpu)
    notes.emplace_back("Host memory stands in for a GPU: copies are the CPU's, no link is in the times.");
  return notes;
}

Json ratio_json(const Ratio& gain, bool is_known) {
  return {{"times", gain.ratio},
          {"low", is_known ? Json(gain.low) : Json()},
          {"high", is_known ? Json(gain.high) : Json()}};
}

Json way_json(const SuiteFound& found, const SuiteRow& row, std::size_t index) {
  const SuiteTimes& times = row.ways[index];
  const double full = row.full_s(times);
  const model::Waiting waiting = waiting_of(found, full);
  return {{"way", times.way},
          {"turns_s", times.turns_s},
          {"median_s", times.seconds()},
          {"bytes_per_second", static_cast<double>(row.bytes) / times.seconds()},
          {"gain", index == 0 ? Json() : ratio_json(row.gain(index), found.turns > 1)},
          {"full_size_s", full},
          {"waiting_hours", row.workload->is_load ? Json() : Json(waiting.hours)},
          {"waiting_money", row.workload->is_load ? Json() : Json(waiting.money)}};
}

Json row_json(const SuiteFound& found, const SuiteRow& row) {
  Json ways = Json::array(), paths = Json::object();
  for (std::size_t i = 0; i < row.ways.size(); ++i) ways.push_back(way_json(found, row, i));
  for (int path = 0; path < static_cast<int>(penstock_path_count()); ++path) {
    const std::uint64_t bytes = row.tally.bytes_by_path[static_cast<std::size_t>(path)];
    if (bytes > 0) paths[penstock_path_name(path)] = bytes;
  }
  return {{"workload", row.workload->name},
          {"title", row.workload->title},
          {"operation", row.workload->is_load ? "load" : "save"},
          {"files", row.workload->files},
          {"threads", row.workload->threads},
          {"bytes", row.bytes},
          {"full_bytes", row.workload->full_bytes},
          {"ways", ways},
          {"bytes_by_path", paths},
          {"cached_share", row.cached ? Json(*row.cached) : Json()},
          {"published",
           {{"hardware", row.workload->hardware},
            {"without_s", row.workload->published_without_s},
            {"with_s", row.workload->published_with_s}}},
          {"marks", row.marks(found.file_system)}};
}

}  // namespace

double SuiteTimes::least() const { return *std::min_element(turns_s.begin(), turns_s.end()); }
double SuiteTimes::most() const { return *std::max_element(turns_s.begin(), turns_s.end()); }

double SuiteRow::full_s(const SuiteTimes& times) const {
  return times.seconds() * workload->full_bytes / static_cast<double>(bytes);
}

Ratio SuiteRow::gain(std::size_t way) const {
  std::vector<double> without, with;
  for (const double seconds : ways[0].turns_s) without.push_back(static_cast<double>(bytes) / seconds);
  for (const double seconds : ways[way].turns_s) with.push_back(static_cast<double>(bytes) / seconds);
  if (without.size() >= 2) return paired_ratio(without, with);
  const double ratio = with[0] / without[0];
  return {ratio, ratio, ratio, "one turn"};
}

std::vector<std::string> SuiteRow::marks(const std::string& file_system) const {
  std::vector<std::string> all;
  if (file_system == "tmpfs") all.emplace_back("tmpfs: memory, no drive");
  if (workload->is_load && file_system != "tmpfs") {
    if (!cached) all.emplace_back("whether the drive or the page cache was read is not known");
    else if (*cached > kCachedMuch) all.push_back(fmt::format("the page cache had {:.0f} % of it", 100 * *cached));
    else if (*cached > kCachedLittle) all.push_back(fmt::format("the page cache had {:.0f} % of it", 100 * *cached));
    else all.emplace_back("from the drive");
  }
  for (const SuiteTimes& times : ways) {
    if (times.most() > times.least() * (1 + kWide))
      all.push_back(fmt::format("{}: turns differ by {:.0f} %", times.way, 100 * (times.most() / times.least() - 1)));
    if (times.seconds() < kShort_s)
      all.push_back(fmt::format("{}: too short to tell much; a larger --scale would", times.way));
  }
  if (ways.size() > 1 && ways[0].turns_s.size() > 1 && !gain(1).differs())
    all.emplace_back("with and without do not differ by more than chance");
  return all;
}

Text suite_text(const SuiteFound& found) {
  Page head;
  head.wrap("", fmt::format("suite: {} ({}), scale {:g}, {} turn{}", found.folder, found.file_system, found.scale,
                            found.turns, found.turns == 1 ? "" : "s"));
  head.wrap("", found.device);
  Text text = head.shown();
  text += Text("\nMeasured: median of the turns (least-most), and how many times as fast as without (95 %)\n");
  text += measured_table(found);
  text += Text("\nAt full size, and what it comes to\n");
  text += full_table(found);
  Page tail;
  tail.section("Of each");
  for (const SuiteRow& row : found.rows) {
    const std::vector<std::string> marks = row.marks(found.file_system);
    const std::string by = path_text(row.tally);
    tail.row(row.workload->name,
             fmt::format("{}; by {}{}{}", row.workload->title, by, marks.empty() ? "" : "; ", fmt::join(marks, "; ")));
  }
  tail.section("What these figures are");
  for (const std::string& note : notes_of(found)) tail.wrap("  ", note);
  text += Text("\n");
  text += tail.shown();
  return text;
}

Json suite_json(const SuiteFound& found) {
  Json json = {{"folder", found.folder},        {"file_system", found.file_system},
               {"device", found.device_facts},  {"host_memory_stands_in", !found.has_gpu},
               {"scale", found.scale},          {"turns", found.turns},
               {"saves", found.saves},          {"gpus_that_wait", kSuiteGpus},
               {"price_gpu_hour", found.price}, {"workloads", Json::array()},
               {"notes", notes_of(found)}};
  for (const SuiteRow& row : found.rows) json["workloads"].push_back(row_json(found, row));
  return json;
}

}  // namespace penstock::tools
