// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "stats/layout.h"
#include "tools/stats/report.h"

namespace penstock::tools {
namespace {

using core::StatsHistogram;

// Upper bounds: powers of two of bytes from 4 KiB to 1 GiB, and of nanoseconds from a microsecond to 17 seconds.
constexpr unsigned kSizePowers[] = {12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
constexpr unsigned kTimePowers[] = {10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 22, 24, 26, 28, 30, 34};

using Labels = std::vector<std::pair<std::string, std::string>>;

std::string escaped(const std::string& value) {
  std::string text;
  for (const char letter : value) {
    if (letter == '\\' || letter == '"') text += '\\';
    text += letter == '\n' ? std::string("\\n") : std::string(1, letter);
  }
  return text;
}

class Exposition {
 public:
  void begin(const std::string& name, const char* type, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <typename Number>
  void add(const Labels& labels, Number value, const char* suffix = "") {
    text_ += name_ + suffix;
    if (!labels.empty()) {
      text_ += '{';
      for (const auto& [label, text] : labels) {
        text_ += fmt::format("{}{}=\"{}\"", text_.back() == '{' ? "" : ",", label, escaped(text));
      }
      text_ += '}';
    }
    text_ += fmt::format(" {}\n", value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string name_;
  std::string text_;
};

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

std::uint64_t count_below(const std::vector<std::uint64_t>& buckets, std::size_t end) {
  const auto last = buckets.begin() + static_cast<std::ptrdiff_t>(std::min(end, buckets.size()));
  return std::accumulate(buckets.begin(), last, std::uint64_t{0});
}

std::uint64_t bytes_of(const core::StatsSnapshot& session, const StatsHistogram& histogram) {
  std::uint64_t bytes = 0;
  for (const core::StatsRow& row : session.rows) {
    if (row.path == histogram.path && row.op == histogram.op) bytes += row.bytes;
  }
  return bytes;
}

void add_sizes(Exposition& page, const std::vector<ProcessView>& processes) {
  page.begin("penstock_request_bytes", "histogram", "Bytes moved by one request.");
  for_each_session(processes, [&](const core::StatsSnapshot& session, const Labels& own) {
    for (const StatsHistogram& one : session.histograms) {
      const Labels labels = labels_of(own, one);
      const std::uint64_t all = count_below(one.sizes, one.sizes.size());
      for (const unsigned power : kSizePowers) {
        // Bucket i holds numbers of i bits: those below 2^power.
        page.add(with(labels, "le", fmt::format("{}", (std::uint64_t{1} << power) - 1)),
                 count_below(one.sizes, power + 1), "_bucket");
      }
      page.add(with(labels, "le", "+Inf"), all, "_bucket");
      page.add(labels, bytes_of(session, one), "_sum");
      page.add(labels, all, "_count");
    }
  });
}

void add_latencies(Exposition& page, const std::vector<ProcessView>& processes) {
  page.begin("penstock_request_seconds", "histogram", "Time that one request took, where it was measured.");
  for_each_session(processes, [&](const core::StatsSnapshot& session, const Labels& own) {
    for (const StatsHistogram& one : session.histograms) {
      const Labels labels = labels_of(own, one);
      const std::uint64_t all = count_below(one.latencies, one.latencies.size());
      if (all == 0) continue;
      for (const unsigned power : kTimePowers) {
        const std::uint64_t bound = std::uint64_t{1} << power;
        page.add(with(labels, "le", fmt::format("{:.9g}", static_cast<double>(bound) / 1e9)),
                 count_below(one.latencies, core::latency_bucket(bound)), "_bucket");
      }
      page.add(with(labels, "le", "+Inf"), all, "_bucket");
      page.add(labels, static_cast<double>(one.latency_sum) / 1e9, "_sum");
      page.add(labels, all, "_count");
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
  page.begin("penstock_cufile_calls_total", "counter", "cuFile calls while its statistics were being counted.");
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
  page.begin("penstock_session_info", "gauge", "An open session; always 1.");
  for (const ProcessView& process : processes) {
    for (const auto& session : process.sessions) {
      page.add(with(with(labels_of(process, session), "command", process.command), "version", session.library), 1);
    }
  }
  page.begin("penstock_bytes_total", "counter",
             "Bytes moved, by the path taken and the reason that it was no better one.");
  add_rows(page, processes, &core::StatsRow::bytes);
  page.begin("penstock_operations_total", "counter", "Requests, by the path taken and the reason.");
  add_rows(page, processes, &core::StatsRow::operations);
  add_sizes(page, processes);
  add_latencies(page, processes);
  add_cufile(page, processes);
  return page.text();
}

}  // namespace penstock::tools
