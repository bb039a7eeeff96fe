// SPDX-License-Identifier: Apache-2.0

#include "tools/stats/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "stats/layout.h"
#include "tools/common/exposition.h"
#include "tools/common/request_counts.h"
#include "tools/common/table.h"
#include "tools/common/units.h"
#include "tools/stats/page.h"

namespace penstock::tools {
namespace {

using Json = nlohmann::ordered_json;
using core::CufileOperation;
using core::Op;
using core::StatsHistogram;

constexpr double kQuantiles[] = {0.5, 0.9, 0.99};

std::uint64_t sum(const std::vector<std::uint64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
}

void add(std::vector<std::uint64_t>& numbers, const std::vector<std::uint64_t>& more) {
  numbers.resize(std::max(numbers.size(), more.size()));
  for (std::size_t i = 0; i < more.size(); ++i) numbers[i] += more[i];
}

// Histograms by path and operation, over all sessions.
std::vector<StatsHistogram> histograms_of(const ProcessView& process) {
  std::vector<StatsHistogram> all;
  for (const auto& session : process.sessions) {
    for (const StatsHistogram& one : session.histograms) {
      const auto same = [&](const StatsHistogram& known) { return known.path == one.path && known.op == one.op; };
      const auto found = std::find_if(all.begin(), all.end(), same);
      if (found == all.end()) {
        all.push_back(one);
        continue;
      }
      add(found->sizes, one.sizes);
      add(found->latencies, one.latencies);
      found->latency_sum += one.latency_sum;
    }
  }
  return all;
}

std::string microseconds(std::uint64_t nanoseconds) {
  return fmt::format("{:.1f} us", static_cast<double>(nanoseconds) / 1e3);
}

// A table of measured latencies, or "" if none was measured.
std::string latency_table(const ProcessView& process) {
  Table table({"path", "op", ">measured", ">average", ">50%", ">90%", ">99%"});
  bool any = false;
  for (const StatsHistogram& one : histograms_of(process)) {
    const std::uint64_t measured = sum(one.latencies);
    if (measured == 0) continue;
    any = true;
    std::vector<std::string> cells = {one.path, core::op_name(one.op), fmt::format("{}", measured),
                                      microseconds(one.latency_sum / measured)};
    for (const double quantile : kQuantiles) {
      cells.push_back(microseconds(core::latency_quantile(one.latencies, quantile)));
    }
    table.add(cells);
  }
  return any ? "\n" + table.text().string() : "";
}

Json cufile_json(const core::CufileTotals& totals) {
  const auto counter = [&](CufileOperation operation) {
    const core::CufileCount& count = totals.operations(operation);
    return Json{{"ok", count.ok}, {"err", count.err}};
  };
  return {{"level", totals.level},
          {"counting", totals.counting},
          {"read", counter(CufileOperation::read)},
          {"write", counter(CufileOperation::write)},
          {"readv", counter(CufileOperation::readv)},
          {"writev", counter(CufileOperation::writev)},
          {"handle_register", counter(CufileOperation::handle_register)},
          {"handle_deregister", counter(CufileOperation::handle_deregister)},
          {"buffer_register", counter(CufileOperation::buffer_register)},
          {"buffer_deregister", counter(CufileOperation::buffer_deregister)},
          {"batch_submit", counter(CufileOperation::batch_submit)},
          {"batch_complete", counter(CufileOperation::batch_complete)}};
}

Json session_json(const core::StatsSnapshot& session) {
  Json json = {{"session", session.id},
               {"library", session.library},
               {"opened", static_cast<double>(session.opened_ns) / 1e9},
               {"ways", Json::array()},
               {"latencies", Json::array()}};
  for (const core::StatsRow& row : session.rows) {
    json["ways"].push_back({{"path", row.path},
                            {"reason", row.reason},
                            {"op", core::op_name(row.op)},
                            {"bytes", row.bytes},
                            {"operations", row.operations}});
  }
  for (const StatsHistogram& one : session.histograms) {
    const std::uint64_t measured = sum(one.latencies);
    if (measured == 0) continue;
    json["latencies"].push_back({{"path", one.path},
                                 {"op", core::op_name(one.op)},
                                 {"measured", measured},
                                 {"average_ns", one.latency_sum / measured},
                                 {"p50_ns", core::latency_quantile(one.latencies, 0.5)},
                                 {"p90_ns", core::latency_quantile(one.latencies, 0.9)},
                                 {"p99_ns", core::latency_quantile(one.latencies, 0.99)}});
  }
  json["cufile"] = cufile_json(session.cufile);
  return json;
}

Json libraries_json(const std::vector<CuFileLibrary>& libraries) {
  Json rows = Json::array();
  for (const CuFileLibrary& library : libraries) {
    rows.push_back({{"path", library.path}, {"maker", maker_name(library.maker)}});
  }
  return rows;
}

// Names processes that have a libcufile and no session of Penstock's.
std::string others_text(const MachineView& machine) {
  if (machine.without_session.empty()) return "";
  Table table({">pid", "command", "libcufile without a session", "whose"});
  for (const ProcessWithCuFile& process : machine.without_session) {
    for (const CuFileLibrary& library : process.libraries) {
      const char* const whose = library.maker == Maker::penstock ? "Penstock's, not used yet"
                                : library.maker == Maker::other  ? "another's; 'penstock run' puts ours in front"
                                                                 : "not to be seen";
      table.add({fmt::format("{}", process.pid), process.command, library.path, whose});
    }
  }
  return "\n" + table.text().string();
}

using core::StatsHistogram;

Labels with(Labels labels, const char* label, std::string value) {
  labels.emplace_back(label, std::move(value));
  return labels;
}

Labels labels_of(const ProcessView& process, const core::StatsSnapshot& session) {
  return {{"pid", fmt::format("{}", process.pid)}, {"session", fmt::format("{}", session.id)}};
}

using EachSession = std::function<void(const core::StatsSnapshot&, const Labels&)>;
void for_each_session(const std::vector<ProcessView>& processes, const EachSession& act) {
  for (const ProcessView& process : processes) {
    for (const auto& session : process.sessions) act(session, labels_of(process, session));
  }
}

Labels labels_of(const Labels& session, const StatsHistogram& histogram) {
  return with(with(session, "path", histogram.path), "op", core::op_name(histogram.op));
}

// Adds each histogram of each session to the family that was begun.
template <typename Add>
void add_histograms(Exposition& page, const std::vector<ProcessView>& processes, Add add) {
  for_each_session(processes, [&](const core::StatsSnapshot& session, const Labels& own) {
    for (const StatsHistogram& one : session.histograms) {
      add(page, labels_of(own, one), request_counts(session, one));
    }
  });
}

void add_rows(Exposition& page, const std::vector<ProcessView>& processes, std::uint64_t core::StatsRow::*number) {
  for_each_session(processes, [&](const core::StatsSnapshot& session, const Labels& own) {
    for (const core::StatsRow& row : session.rows) {
      page.add(with(with(with(own, "path", row.path), "reason", row.reason), "op", core::op_name(row.op)), row.*number);
    }
  });
}

bool has_cufile(const core::CufileTotals& totals) {
  const auto counted = [](const core::CufileCount& count) { return count.ok + count.err > 0; };
  return totals.level > 0 || std::any_of(std::begin(totals.sums.operations), std::end(totals.sums.operations), counted);
}

void add_cufile(Exposition& page, const std::vector<ProcessView>& processes) {
  constexpr std::pair<core::CufileOperation, const char*> kNamed[] = {
      {core::CufileOperation::read, "read"},
      {core::CufileOperation::write, "write"},
      {core::CufileOperation::readv, "readv"},
      {core::CufileOperation::writev, "writev"},
      {core::CufileOperation::handle_register, "handle_register"},
      {core::CufileOperation::buffer_register, "buffer_register"},
      {core::CufileOperation::batch_submit, "batch_submit"},
      {core::CufileOperation::batch_posix_processed, "batch_entry_posix"},
      {core::CufileOperation::batch_processed, "batch_entry_direct"},
  };
  page.begin({"penstock_cufile_calls", MetricType::counter, "cuFile calls while its statistics were being counted."});
  for_each_session(processes, [&](const core::StatsSnapshot& session, const Labels& own) {
    if (!has_cufile(session.cufile)) return;
    for (const auto& [operation, name] : kNamed) {
      const core::CufileCount& count = session.cufile.operations(operation);
      page.add(with(with(own, "call", name), "result", "ok"), count.ok);
      page.add(with(with(own, "call", name), "result", "error"), count.err);
    }
  });
}

}  // namespace

std::string ways_text(const Ways& ways, const Moved* moved) {
  std::vector<std::string> columns = {"path", "reason", "op", ">operations", ">bytes"};
  if (moved != nullptr) columns.insert(columns.end(), {">operations/s", ">rate"});
  Table table(columns);
  for (const auto& [key, count] : ways) {
    const auto& [path, reason, op] = key;
    std::vector<std::string> cells = {path, reason, core::op_name(op), fmt::format("{}", count.operations),
                                      format_size(count.bytes)};
    if (moved != nullptr) {
      const auto found = moved->ways.find(key);
      const WayCount more = found != moved->ways.end() ? found->second : WayCount{};
      cells.push_back(fmt::format("{:.0f}", moved->per_second(more.operations)));
      cells.push_back(format_rate(moved->per_second(more.bytes)));
    }
    table.add(cells);
  }
  return table.text().string();
}

std::string process_text(const ProcessView& process, const Moved* moved) {
  const std::size_t sessions = process.sessions.size();
  std::string text =
      fmt::format("process {} ({}), Penstock {}, {} session{} open\n", process.pid, process.command,
                  process.sessions.empty() ? "?" : process.sessions[0].library, sessions, sessions == 1 ? "" : "s");
  if (!process.refusal.empty()) text += fmt::format("note: {}\n", process.refusal);
  const Ways ways = counts_of(process.sessions);
  if (ways.empty()) return text + "nothing was moved yet\n";
  return text + ways_text(ways, moved) + latency_table(process);
}

std::string machine_text(const MachineView& machine) {
  std::string text;
  Table table({">pid", "command", ">sessions", ">read", ">written", ">operations", "paths"});
  for (const ProcessView& process : machine.processes) {
    const Ways ways = counts_of(process.sessions);
    const auto [read, written] = sums_of(ways);
    table.add({fmt::format("{}", process.pid), process.command, fmt::format("{}", process.sessions.size()),
               format_size(read.bytes), format_size(written.bytes),
               fmt::format("{}", read.operations + written.operations), paths_text(ways)});
    if (!process.refusal.empty()) text += fmt::format("note: process {}: {}\n", process.pid, process.refusal);
  }
  text = (machine.processes.empty() ? "no process that this user may look at has a Penstock session open\n"
                                    : table.text().string()) +
         others_text(machine) + text;
  if (machine.hidden > 0) text += machine.why_hidden + "\n";
  if (machine.not_looked_at > 0) {
    text += fmt::format("{} process{} looked at in part only: one look has limits\n", machine.not_looked_at,
                        machine.not_looked_at == 1 ? " was" : "es were");
  }
  return text;
}

Json other_json(const ProcessWithCuFile& process) {
  return {{"pid", process.pid},
          {"command", process.command},
          {"sessions", Json::array()},
          {"libraries", libraries_json(process.libraries)}};
}

Json process_json(const ProcessView& process) {
  Json json = {{"pid", process.pid}, {"command", process.command}, {"sessions", Json::array()}};
  for (const auto& session : process.sessions) json["sessions"].push_back(session_json(session));
  if (!process.refusal.empty()) json["refused"] = process.refusal;
  return json;
}

Json machine_json(const MachineView& machine) {
  Json json = {{"processes", Json::array()}, {"hidden_processes", machine.hidden}};
  if (machine.not_looked_at > 0) json["processes_not_looked_at"] = machine.not_looked_at;
  for (const ProcessView& process : machine.processes) json["processes"].push_back(process_json(process));
  json["without_session"] = Json::array();
  for (const ProcessWithCuFile& process : machine.without_session)
    json["without_session"].push_back(other_json(process));
  return json;
}

std::string prometheus_text(const std::vector<ProcessView>& processes) {
  Exposition page;
  page.begin({"penstock_session", MetricType::info, "An open session; always 1."});
  for (const ProcessView& process : processes) {
    for (const auto& session : process.sessions) {
      page.add(with(with(labels_of(process, session), "command", process.command), "version", session.library), 1);
    }
  }
  page.begin({"penstock_bytes", MetricType::counter,
              "Bytes moved, by the path taken and the reason that it was no better one.", "bytes"});
  add_rows(page, processes, &core::StatsRow::bytes);
  page.begin({"penstock_operations", MetricType::counter, "Requests, by the path taken and the reason."});
  add_rows(page, processes, &core::StatsRow::operations);
  page.begin({"penstock_request_bytes", MetricType::histogram, "Bytes moved by one request.", "bytes"});
  add_histograms(page, processes, add_sizes);
  page.begin({"penstock_request_seconds", MetricType::histogram, "Time that one request took, where it was measured.",
              "seconds"});
  add_histograms(page, processes, add_latencies);
  add_cufile(page, processes);
  return page.finish();
}

}  // namespace penstock::tools
