// SPDX-License-Identifier: Apache-2.0

#include "model/program/contention_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/words.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kStreamLinesMax = 32;
constexpr std::size_t kStationLinesMax = 12;
constexpr std::size_t kInfluenceLinesMax = 8;
constexpr std::size_t kStreamNamesMax = 8;

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string microseconds(double seconds) { return fmt::format("{:.1f}", seconds * 1e6); }

const std::string& station_name(const ContentionReport& report, std::uint32_t index) {
  return report.network.stations[index].name;
}

std::string bound_text(const ContentionReport& report, const model::StreamResult& stream) {
  const std::string& name = station_name(report, stream.busiest_station);
  return stream.is_bound_by_station ? name : fmt::format("depth and latency ({} is busiest)", name);
}

std::vector<std::uint32_t> by_utilisation(const model::Outcome& outcome) {
  std::vector<std::uint32_t> order(outcome.stations.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return outcome.stations[a].utilisation > outcome.stations[b].utilisation;
  });
  return order;
}

void print_streams(const ContentionReport& report) {
  const bool has_latencies = report.level == "packet";
  Table table({"stream", ">GB/s", ">p50 us", ">p95 us", ">p99 us", ">max us", "held back by"});
  const auto& streams = report.outcome.streams;
  for (std::size_t i = 0; i < std::min(streams.size(), kStreamLinesMax); ++i) {
    const auto latency = [&](double share) {
      return has_latencies ? microseconds(streams[i].latency.percentile_seconds(share)) : std::string("-");
    };
    table.add({streams[i].name, fmt::format("{:.2f}", streams[i].bytes_per_second / 1e9), latency(0.5), latency(0.95),
               latency(0.99), latency(1), bound_text(report, streams[i])});
  }
  print("{}", table.text());
  if (streams.size() > kStreamLinesMax) print("... and {} more\n", streams.size() - kStreamLinesMax);
}

void print_stations(const ContentionReport& report) {
  Table table({"station", "kind", ">busy", ">changing streams", ">fences", ">headers"});
  const std::vector<std::uint32_t> order = by_utilisation(report.outcome);
  for (std::size_t i = 0; i < std::min(order.size(), kStationLinesMax); ++i) {
    const model::StationResult& station = report.outcome.stations[order[i]];
    const double seconds = std::max(report.outcome.seconds, 1e-12);
    const double headers = station.wire_bytes > 0 ? 1 - station.payload_bytes / station.wire_bytes : 0;
    const bool is_link = report.network.stations[order[i]].kind == model::StationKind::link;
    table.add({station_name(report, order[i]), model::station_kind_name(report.network.stations[order[i]].kind),
               percent(station.utilisation), percent(station.change_seconds / seconds),
               percent(station.fence_seconds / seconds), is_link ? percent(std::max(headers, 0.0)) : "-"});
  }
  print("\n{}", table.text());
}

// Prints the fences of pipelines, which stations do not record.
void print_fences(const model::Outcome& outcome) {
  double most = 0;
  for (const model::StreamResult& stream : outcome.streams) most = std::max(most, stream.fence_seconds);
  if (most == 0) return;
  print("\nfences: the I/Os of a stream waited {} for them, one beside another; the run took {}\n",
        model::time_in_words(most), model::time_in_words(outcome.seconds));
}

std::vector<std::string> names_of(const ContentionReport& report, const model::SweepPoint& point) {
  std::vector<std::string> names;
  for (const std::size_t index : point.chosen) names.push_back(report.workload.streams[index].name);
  return names;
}

const char* search_words(model::Search search) {
  switch (search) {
    case model::Search::all: return "every set of that many streams was tried";
    case model::Search::spread: return "the set of that many streams that share least";
    case model::Search::none: return "the first streams alone: there are too many sets to try";
  }
  return "";
}

void print_sweep(const ContentionReport& report) {
  const model::Sweep& sweep = *report.sweep;
  Table table({">streams", ">GB/s in all", "which"});
  for (const model::SweepPoint& point : sweep.points) {
    std::vector<std::string> names = names_of(report, point);
    const std::size_t all = names.size();
    if (all > kStreamNamesMax) names.resize(kStreamNamesMax);
    table.add({std::to_string(point.streams), fmt::format("{:.2f}", point.bytes_per_second / 1e9),
               fmt::format("{}{}", fmt::join(names, ", "), all > kStreamNamesMax ? ", ..." : "")});
  }
  print("\n{}{}\nmost in total: {} streams\n", table.text(), search_words(sweep.search), sweep.best_streams);
}

void print_influences(const model::Sensitivity& sensitivity) {
  if (sensitivity.influences.empty()) {
    print("\nno constant moves the total: it hangs on what the topology file says itself\n");
    return;
  }
  print("\nwhat moved the total most (per cent for one per cent of the constant):\n");
  Table table({"constant", ">per cent", ">at its low GB/s", ">at its high GB/s"});
  for (std::size_t i = 0; i < std::min(sensitivity.influences.size(), kInfluenceLinesMax); ++i) {
    const model::Influence& influence = sensitivity.influences[i];
    table.add({std::string(influence.constant), fmt::format("{:+.2f}", influence.elasticity),
               fmt::format("{:.1f}", influence.at_low / 1e9), fmt::format("{:.1f}", influence.at_high / 1e9)});
  }
  print("{}", table.text());
}

void print_orderings(const ContentionReport& report) {
  Table table({"ordering", "fences", ">time", ">GB/s", ">I/Os sent stale", ">of", ">stale bytes"});
  for (const model::OrderingRow& row : report.orderings) {
    table.add({std::string(model::kOrderingWords.at(static_cast<std::size_t>(row.ordering))),
               std::string(model::kFenceWords.at(static_cast<std::size_t>(row.fence))),
               model::time_in_words(row.seconds), fmt::format("{:.2f}", row.bytes_per_second / 1e9),
               std::to_string(row.stale_ios), std::to_string(row.ios), format_size(row.stale_bytes)});
  }
  print(
      "\nwhat the first NIC sent before it had arrived in its memory, told of it by a completion that passed waiting "
      "data:\n{}a demonstration by the model, no measurement: how often a machine does so is not known\n",
      table.text());
}

Json orderings_json(const std::vector<model::OrderingRow>& orderings) {
  Json rows = Json::array();
  for (const model::OrderingRow& row : orderings) {
    rows.push_back({{"ordering", model::kOrderingWords.at(static_cast<std::size_t>(row.ordering))},
                    {"fence", model::kFenceWords.at(static_cast<std::size_t>(row.fence))},
                    {"seconds", row.seconds},
                    {"bytes_per_second", row.bytes_per_second},
                    {"ios", row.ios},
                    {"stale_ios", row.stale_ios},
                    {"stale_bytes", row.stale_bytes}});
  }
  return rows;
}

Json stream_json(const ContentionReport& report, std::size_t index) {
  const model::StreamResult& stream = report.outcome.streams[index];
  Json json = {{"name", stream.name},
               {"bytes", stream.bytes},
               {"ios", stream.ios},
               {"begin_s", stream.begin_seconds},
               {"end_s", stream.end_seconds},
               {"bytes_per_second", stream.bytes_per_second},
               {"shared_bytes_per_second", stream.shared_bytes_per_second},
               {"busiest_station", station_name(report, stream.busiest_station)},
               {"is_bound_by_station", stream.is_bound_by_station},
               {"fence_s", stream.fence_seconds},
               {"stale_ios", stream.stale_ios},
               {"stale_bytes", stream.stale_bytes},
               {"latency", nullptr}};
  if (report.level != "packet") return json;
  json["latency"] = {{"mean_s", stream.latency.mean_seconds()},
                     {"p50_s", stream.latency.percentile_seconds(0.5)},
                     {"p95_s", stream.latency.percentile_seconds(0.95)},
                     {"p99_s", stream.latency.percentile_seconds(0.99)},
                     {"p999_s", stream.latency.percentile_seconds(0.999)},
                     {"max_s", stream.latency.most_seconds()}};
  return json;
}

Json station_json(const ContentionReport& report, std::uint32_t index) {
  const model::StationResult& station = report.outcome.stations[index];
  return {
      {"name", station_name(report, index)},    {"kind", model::station_kind_name(report.network.stations[index].kind)},
      {"utilisation", station.utilisation},     {"busy_s", station.busy_seconds},
      {"change_s", station.change_seconds},     {"fence_s", station.fence_seconds},
      {"payload_bytes", station.payload_bytes}, {"wire_bytes", station.wire_bytes}};
}

Json sweep_json(const ContentionReport& report) {
  Json points = Json::array();
  for (const model::SweepPoint& point : report.sweep->points) {
    points.push_back(
        {{"streams", point.streams}, {"bytes_per_second", point.bytes_per_second}, {"which", names_of(report, point)}});
  }
  return {
      {"best_streams", report.sweep->best_streams}, {"search", search_words(report.sweep->search)}, {"points", points}};
}

Json sensitivity_json(const model::Sensitivity& sensitivity) {
  Json influences = Json::array();
  for (const model::Influence& influence : sensitivity.influences) {
    influences.push_back({{"constant", std::string(influence.constant)},
                          {"elasticity", influence.elasticity},
                          {"at_low", influence.at_low},
                          {"at_high", influence.at_high}});
  }
  return {{"result", sensitivity.result}, {"value", sensitivity.value}, {"influences", influences}};
}

std::string published_text(const model::PublishedPoint& point) {
  if (std::isinf(point.high)) return fmt::format("over {:.0f}", point.low);
  return point.low == point.high ? fmt::format("{:.1f}", point.low)
                                 : fmt::format("{:.0f}-{:.0f}", point.low, point.high);
}

// Notes about the requested path that the rates do not show.
std::vector<std::string> notes_of(const ContentionReport& report) {
  const auto& streams = report.workload.streams;
  const bool goes_past_host = std::any_of(streams.begin(), streams.end(), [](const model::Stream& stream) {
    return stream.path == model::PathKind::direct || stream.path == model::PathKind::pipeline;
  });
  if (report.workload.iommu != model::IommuMode::strict || !goes_past_host) return {};
  return {
      "These rates are of time alone. Behind an IOMMU that translates, bytes that one device sends to another may "
      "arrive wrong, and nothing reports it ('penstock help iommu_translating'): boot with iommu=pt, or take --path "
      "pinned."};
}

const char* standing(const model::PublishedPoint& point) {
  if (point.is_calibration) return "fitted";
  return std::abs(point.error()) <= model::kPublishedTolerance ? "agrees" : "differs";
}

}  // namespace

void print_contention(const ContentionReport& report) {
  const model::Outcome& outcome = report.outcome;
  print("machine: {}\n", report.machine);
  print("arbitration: {}, IOMMU: {}, level: {}, seed: {}\n\n",
        model::kArbitrationWords.at(static_cast<std::size_t>(report.workload.arbitration)),
        model::kIommuWords.at(static_cast<std::size_t>(report.workload.iommu)), report.level, report.workload.seed);
  print_streams(report);
  print("in all: {} ({} in {}), {} while all ran\n", format_rate(outcome.bytes_per_second), format_size(outcome.bytes),
        model::time_in_words(outcome.seconds), format_rate(outcome.shared_bytes_per_second));
  print_stations(report);
  print_fences(outcome);
  const bool binds = outcome.stations[outcome.busiest_station].utilisation >= model::kBindingUtilisation;
  print("\nbinding: {}{}\n", binds ? "" : "nothing but depth and latency; busiest is ",
        station_name(report, outcome.busiest_station));
  if (!report.orderings.empty()) print_orderings(report);
  if (report.sweep) print_sweep(report);
  if (report.sensitivity) print_influences(*report.sensitivity);
  for (const std::string& note : notes_of(report)) print("\nnote: {}\n", note);
}

Json contention_json(const ContentionReport& report) {
  const model::Outcome& outcome = report.outcome;
  Json json = {{"machine", report.machine},
               {"level", report.level},
               {"arbitration", model::kArbitrationWords.at(static_cast<std::size_t>(report.workload.arbitration))},
               {"iommu", model::kIommuWords.at(static_cast<std::size_t>(report.workload.iommu))},
               {"seed", report.workload.seed},
               {"bytes", outcome.bytes},
               {"seconds", outcome.seconds},
               {"bytes_per_second", outcome.bytes_per_second},
               {"shared_bytes_per_second", outcome.shared_bytes_per_second},
               {"events", outcome.events},
               {"busiest_station", station_name(report, outcome.busiest_station)},
               {"streams", Json::array()},
               {"stations", Json::array()},
               {"orderings", orderings_json(report.orderings)},
               {"sweep", report.sweep ? sweep_json(report) : Json()},
               {"sensitivity", report.sensitivity ? sensitivity_json(*report.sensitivity) : Json()},
               {"notes", notes_of(report)}};
  for (std::size_t i = 0; i < outcome.streams.size(); ++i) json["streams"].push_back(stream_json(report, i));
  for (std::uint32_t i = 0; i < outcome.stations.size(); ++i) json["stations"].push_back(station_json(report, i));
  return json;
}

void print_published(const std::vector<model::PublishedPoint>& points) {
  Table table({"figure", ">published", ">predicted", "unit", ">off", "", "note"});
  for (const model::PublishedPoint& point : points) {
    table.add({point.what, published_text(point), fmt::format("{:.1f}", point.predicted), point.unit,
               percent(point.error()), standing(point), point.note});
  }
  print("{}", table.text());
}

Json published_json(const std::vector<model::PublishedPoint>& points) {
  Json rows = Json::array();
  for (const model::PublishedPoint& point : points) {
    rows.push_back({{"figure", point.what},
                    {"unit", point.unit},
                    {"published_low", point.low},
                    {"published_high", point.high},
                    {"predicted", point.predicted},
                    {"error", point.error()},
                    {"is_calibration", point.is_calibration},
                    {"note", point.note}});
  }
  return {{"points", rows}};
}

}  // namespace penstock::tools
