// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tools/common/exposition.h"
#include "tools/common/request_counts.h"
#include "tools/stats/report.h"

namespace penstock::tools {
namespace {

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

// Each histogram of each session, as one of a family that was begun.
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
