// SPDX-License-Identifier: Apache-2.0

#include "tools/demo/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/common/interval.h"
#include "tools/common/machine_use.h"
#include "tools/common/page.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

bool overlap(const DemoRow& one, const DemoRow& other) {
  return one.low() <= other.high() && other.low() <= one.high();
}

std::string range_text(const DemoRow& row) {
  return fmt::format("{:.2f} GB/s (median of {} rounds, {:.2f} to {:.2f})", row.rate(), row.gb_per_s.size(), row.low(),
                     row.high());
}

std::string names_of_rows(const std::vector<const DemoRow*>& rows) {
  std::vector<std::string> names;
  for (const DemoRow* row : rows) names.push_back(row->name());
  return fmt::format("{}", fmt::join(names, "; "));
}

void add_fastest(const std::vector<DemoRow>& rows, const std::string& operation, bool cached, Page& page) {
  const Fastest best = fastest_of(rows, operation, cached);
  if (best.row == nullptr) return;
  std::string line = fmt::format("{}, {}.", best.row->name(), range_text(*best.row));
  if (best.row->is_cached) line += " It read pages that were cached: this is no rate of the drive.";
  if (!best.unbeaten.empty()) {
    line +=
        " Which is faster cannot be told by this run, since the ranges overlap: " + names_of_rows(best.unbeaten) + ".";
  }
  page.wrap(fmt::format("Fastest {} of device memory{}: ", operation, cached ? "" : ", not from cached pages"), line);
  if (best.row->is_cached) add_fastest(rows, operation, false, page);
}

Json fastest_json(const std::vector<DemoRow>& rows) {
  Json json = Json::array();
  for (const char* operation : {"write", "read"}) {
    const Fastest best = fastest_of(rows, operation, true);
    if (best.row == nullptr) continue;
    Json unbeaten = Json::array();
    for (const DemoRow* row : best.unbeaten) unbeaten.push_back({{"path", row->way->path}, {"how", row->way->how}});
    json.push_back({{"operation", operation},
                    {"path", best.row->way->path},
                    {"how", best.row->way->how},
                    {"gb_per_s", best.row->rate()},
                    {"cached", best.row->is_cached},
                    {"overlaps", unbeaten}});
  }
  return json;
}

}  // namespace

double DemoRow::rate() const { return median(gb_per_s); }
double DemoRow::low() const { return *std::min_element(gb_per_s.begin(), gb_per_s.end()); }
double DemoRow::high() const { return *std::max_element(gb_per_s.begin(), gb_per_s.end()); }
std::string DemoRow::name() const { return way->how.empty() ? way->path : way->path + ", " + way->how; }

void add_round(std::vector<DemoRow>& rows, const DemoRow& of_round) {
  const auto same = std::find_if(rows.begin(), rows.end(), [&](const DemoRow& row) {
    return row.way == of_round.way && row.operation == of_round.operation;
  });
  if (same == rows.end()) return rows.push_back(of_round);
  same->gb_per_s.insert(same->gb_per_s.end(), of_round.gb_per_s.begin(), of_round.gb_per_s.end());
  same->cpu_per_gb.insert(same->cpu_per_gb.end(), of_round.cpu_per_gb.begin(), of_round.cpu_per_gb.end());
  same->is_cached = same->is_cached || of_round.is_cached;
}

Fastest fastest_of(const std::vector<DemoRow>& rows, const std::string& operation, bool cached) {
  std::vector<const DemoRow*> rivals;
  for (const DemoRow& row : rows) {
    if (row.operation == operation && !row.way->host_memory && (cached || !row.is_cached)) rivals.push_back(&row);
  }
  if (rivals.empty()) return {};
  Fastest best{*std::max_element(rivals.begin(), rivals.end(),
                                 [](const DemoRow* one, const DemoRow* other) { return one->rate() < other->rate(); }),
               {}};
  for (const DemoRow* row : rivals) {
    if (row != best.row && overlap(*row, *best.row)) best.unbeaten.push_back(row);
  }
  return best;
}

Text demo_text(const DemoFound& found) {
  Table table({"path", "how", "operation", ">GB/s", ">range", ">CPU s/GB", ">4 KiB p50 us", "cached", "verified",
               "why no better path"});
  for (const DemoRow& row : found.rows) {
    const DemoVariant& way = *row.way;
    table.add({way.path, way.how, row.operation, fmt::format("{:.2f}", row.rate()),
               fmt::format("{:.2f}-{:.2f}", row.low(), row.high()), fmt::format("{:.2f}", median(row.cpu_per_gb)),
               fmt::format("{:.0f}", row.latency_us), row.is_cached ? "yes" : "no", "yes",
               way.refused_path < 0
                   ? "there is none"
                   : fmt::format("{}: {}", penstock_path_name(way.refused_path), penstock_reason_name(way.reason))});
  }
  Page page;
  for (const char* operation : {"write", "read"}) add_fastest(found.rows, operation, true, page);
  page.wrap("",
            "GB/s is the median of the rounds. Writes include fsync. 'cached': the read came from the page cache, "
            "which the write before it filled.");
  if (is_shared(found.share_of_others)) page.wrap("warning: ", shared_text(found.share_of_others));
  Text text = Text::of("\n{}{}", table.text(), Text(page.text()));
  if (!found.missing.empty()) text += Text("\nNot on this machine:\n");
  for (const MissingVariant& way : found.missing)
    text += Text::of("  {}: {}{}{}\n", way.what, way.sentence, way.remedy.empty() ? "" : "; ", way.remedy);
  return text;
}

Json demo_json(std::uint64_t size, const Json& device, const DemoFound& found) {
  Json json = {{"size", size},
               {"device", device},
               {"cpu_share_of_others", found.share_of_others},
               {"rows", Json::array()},
               {"fastest", fastest_json(found.rows)},
               {"missing", Json::array()}};
  for (const DemoRow& row : found.rows) {
    Json entry = path_json(*path_by_name(row.way->path), row.way->reason, row.way->refused_path);
    entry.update({{"how", row.way->how},
                  {"operation", row.operation},
                  {"gb_per_s", row.rate()},
                  {"rounds_gb_per_s", row.gb_per_s},
                  {"cpu_seconds_per_gb", median(row.cpu_per_gb)},
                  {"latency_4k_p50_us", row.latency_us},
                  {"cached", row.is_cached},
                  {"verified", true}});
    json["rows"].push_back(entry);
  }
  for (const MissingVariant& way : found.missing) {
    json["missing"].push_back(
        {{"what", way.what}, {"reason", way.reason}, {"sentence", way.sentence}, {"remedy", way.remedy}});
  }
  return json;
}

}  // namespace penstock::tools
