// SPDX-License-Identifier: Apache-2.0

#include "stats/usage_report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <utility>

#include "base/json_text.h"
#include "base/printable.h"
#include "path/reasons.h"

namespace penstock::core {
namespace {

using Moved = UsageReport::Moved;

constexpr std::size_t kReasonsMax = 4;  // The most shown to people.

__attribute__((format(printf, 1, 2))) std::string formatted(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  const int size = std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return {text, static_cast<std::size_t>(std::clamp<int>(size, 0, sizeof text - 1))};
}

double seconds(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

std::string size_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return formatted("%u B", static_cast<unsigned>(bytes));
  double amount = static_cast<double>(bytes) / 1024;
  unsigned unit = 0;
  for (; amount >= 1024 && unit + 1 < std::size(kUnits); ++unit) amount /= 1024;
  return formatted("%.2f %s", amount, kUnits[unit]);
}

std::string time_text(std::uint64_t nanoseconds) {
  const double time = seconds(nanoseconds);
  if (time < 1e-3) return formatted("%.0f us", time * 1e6);
  return time < 1 ? formatted("%.1f ms", time * 1e3) : formatted("%.2f s", time);
}

FileSums sums_of(const UsageReport& report) {
  FileSums all = report.others;
  for (const Usage::File& file : report.files) all.add(file.sums);
  return all;
}

// The files with the most bytes, and the sums of all others.
struct Selection {
  std::vector<const Usage::File*> files;  // The longest first.
  FileSums others;
  std::uint64_t other_files = 0;
};
Selection selection_of(const UsageReport& report, std::size_t files_max) {
  Selection selection{{}, report.others, report.others_opened};
  for (const Usage::File& file : report.files) selection.files.push_back(&file);
  const auto by = [](auto number) {
    return [number](const Usage::File* a, const Usage::File* b) { return number(a->sums) > number(b->sums); };
  };
  auto& files = selection.files;
  std::stable_sort(files.begin(), files.end(), by([](const FileSums& sums) { return sums.bytes(); }));
  const auto cut = [&](std::size_t most) {
    for (; files.size() > most; files.pop_back(), ++selection.other_files) selection.others.add(files.back()->sums);
  };
  cut(kReportFilesMax);
  std::stable_sort(files.begin(), files.end(), by([](const FileSums& sums) { return sums.nanoseconds(); }));
  cut(files_max);
  return selection;
}

// The reasons why bytes took no better path, the one with most bytes first.
std::vector<std::pair<Reason, Count>> reasons_of(const UsageReport& report) {
  std::map<Reason, Count> sums;
  for (const Moved& way : report.ways) {
    if (way.reason == Reason::none) continue;
    sums[way.reason].bytes += way.count.bytes;
    sums[way.reason].operations += way.count.operations;
  }
  std::vector<std::pair<Reason, Count>> reasons(sums.begin(), sums.end());
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  return reasons;
}

std::vector<Moved> largest_first(std::vector<Moved> ways) {
  std::stable_sort(ways.begin(), ways.end(),
                   [](const Moved& a, const Moved& b) { return a.count.bytes > b.count.bytes; });
  return ways;
}

std::uint64_t cached_bytes_of(const UsageReport& report) {
  std::uint64_t bytes = 0;
  for (const Moved& way : report.ways) bytes += traits_of(way.path).pretends ? 0 : way.count.bytes;
  return bytes - std::min(bytes, report.direct_bytes);  // Requests that end meanwhile are counted in two steps.
}

// ---- For people ----------------------------------------------------------------------------------------------------

std::string head_text(const UsageReport& report, const FileSums& all) {
  std::string text = "penstock: process " + std::to_string(report.pid) + " (" + printable(report.program) +
                     "), Penstock " PENSTOCK_VERSION ", " + printable(report.library) + "\n";
  text += "  moved     " + size_text(all.by_op[0].bytes) + " read and " + size_text(all.by_op[1].bytes) +
          " written in " + std::to_string(all.requests()) + " requests";
  text += all.failed > 0 ? "; " + std::to_string(all.failed) + " of them failed\n" : "\n";
  text += "  storage   " + size_text(report.direct_bytes) + " O_DIRECT, " + size_text(cached_bytes_of(report)) +
          " page cache\n";
  const double share = report.nanoseconds > 0 ? 100.0 * seconds(report.busy_ns) / seconds(report.nanoseconds) : 0;
  text += "  time      requests were under way for " + time_text(report.busy_ns) + " of the " +
          time_text(report.nanoseconds) + formatted(" (%.0f %%)", std::min(share, 100.0)) +
          " since the first session opened";
  return text + "; one took " + time_text(all.nanoseconds() / all.requests()) +
         (report.placement.empty() ? "\n" : "\n  placement " + report.placement + "\n");
}

std::string ways_text(const UsageReport& report) {
  std::string text;
  for (const Moved& way : largest_first(report.ways)) {
    text += formatted("  %-9s %11s  %9llu requests  by %s", op_name(way.op), size_text(way.count.bytes).c_str(),
                      static_cast<unsigned long long>(way.count.operations), path_name(way.path));
    if (traits_of(way.path).compat) text += ", not directly";
    text += way.reason == Reason::none ? "\n" : std::string(", since ") + reason_name(way.reason) + "\n";
  }
  return text;
}

std::string reasons_text(const UsageReport& report) {
  std::string text;
  const auto reasons = reasons_of(report);
  for (std::size_t i = 0; i < reasons.size() && i < kReasonsMax; ++i) {
    const ReasonText words = reason_text(reasons[i].first);
    text += formatted("  %-9s %s: %s\n", i == 0 ? "why" : "", words.name, words.sentence);
    if (*words.remedy != '\0') text += formatted("            remedy: %s\n", words.remedy);
  }
  return text;
}

std::string files_text(const UsageReport& report) {
  const Selection selection = selection_of(report, kReportTextFilesMax);
  std::string text;
  const auto add = [&](const FileSums& sums, const std::string& name) {
    text +=
        formatted("  %-9s %11s  %9llu requests  %9s  ", text.empty() ? "slowest" : "", size_text(sums.bytes()).c_str(),
                  static_cast<unsigned long long>(sums.requests()), time_text(sums.nanoseconds()).c_str());
    text += name + "\n";
  };
  for (const Usage::File* file : selection.files) add(file->sums, printable(file->name));
  if (selection.others.requests() > 0) {
    add(selection.others, "others: " + std::to_string(selection.other_files) + " files");
  }
  return text;
}

// ---- For programs --------------------------------------------------------------------------------------------------

void add(JsonText& json, const FileSums& sums) {
  json.add("read_bytes", sums.by_op[0].bytes).add("written_bytes", sums.by_op[1].bytes);
  json.add("requests", sums.requests()).add("failed", sums.failed).add_seconds("seconds", sums.nanoseconds());
}

void add_reasons(JsonText& json, const UsageReport& report) {
  json.open("reasons", '[');
  for (const auto& [reason, count] : reasons_of(report)) {
    const ReasonText words = reason_text(reason);
    json.open("", '{').add("reason", words.name).add("sentence", words.sentence).add("remedy", words.remedy);
    json.add("bytes", count.bytes).add("operations", count.operations).close('}');
  }
  json.close(']');
}

void add_moved(JsonText& json, const UsageReport& report) {
  json.open("ways", '[');
  for (const Moved& way : largest_first(report.ways)) {
    json.open("", '{').add("path", path_name(way.path)).add("reason", reason_name(way.reason));
    json.add("op", op_name(way.op)).add("bytes", way.count.bytes).add("operations", way.count.operations).close('}');
  }
  json.close(']');
}

void add_files(JsonText& json, const UsageReport& report) {
  const Selection selection = selection_of(report, kReportFilesMax);
  json.open("files", '[');
  for (const Usage::File* file : selection.files) {
    add(json.open("", '{').add("name", file->name), file->sums);
    json.close('}');
  }
  add(json.close(']').open("others", '{').add("files", selection.other_files), selection.others);
  json.close('}');
}

}  // namespace

void add_bytes(UsageReport& report, const Counters& counters) {
  std::vector<Moved>& ways = report.ways;
  report.direct_bytes += counters.direct_bytes();
  for (unsigned cell = 0; cell < kPathCount * kReasonCount * 2; ++cell) {
    const auto path = static_cast<PathId>(cell / 2 / kReasonCount);
    const auto reason = static_cast<Reason>(cell / 2 % kReasonCount);
    const auto op = static_cast<Op>(cell % 2);
    const Count count = counters.total(path, reason, op);
    if (count.operations == 0) continue;
    const auto same = [&](const Moved& way) { return way.path == path && way.reason == reason && way.op == op; };
    const auto known = std::find_if(ways.begin(), ways.end(), same);
    Moved& way = known != ways.end() ? *known : ways.emplace_back(Moved{path, reason, op, {}});
    way.count.bytes += count.bytes;
    way.count.operations += count.operations;
  }
}

std::string report_text(const UsageReport& report) {
  const FileSums all = sums_of(report);
  if (all.requests() == 0) {
    return "penstock: process " + std::to_string(report.pid) + " (" + printable(report.program) +
           ") opened a session of " + printable(report.library) + " and asked it for no byte\n";
  }
  return head_text(report, all) + ways_text(report) + reasons_text(report) + files_text(report);
}

std::string report_json(const UsageReport& report) {
  JsonText json;
  json.open("", '{').add("schema", 1).add("version", PENSTOCK_VERSION).add("library", report.library);
  json.add("pid", report.pid).add("program", report.program);
  json.add("sessions", report.sessions).add("sessions_open", report.sessions_open);
  json.add("placement", report.placement);
  json.add_seconds("seconds", report.nanoseconds).add_seconds("busy_seconds", report.busy_ns);
  add(json.open("all", '{'), sums_of(report));
  json.close('}').add("direct_bytes", report.direct_bytes).add("cached_bytes", cached_bytes_of(report));
  add_moved(json, report);
  add_reasons(json, report);
  add_files(json, report);
  return json.close('}').text() + "\n";
}

}  // namespace penstock::core
