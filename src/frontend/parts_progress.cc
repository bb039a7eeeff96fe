// SPDX-License-Identifier: Apache-2.0

#include "frontend/parts_progress.h"

namespace penstock::core {

// Keeps the first part's report. A part that went by bounce reports its bytes as bounced.
Report PartsProgress::noted(bool is_first, Report report) {
  --unfinished_;
  if (is_first) first_ = report;
  if (report.path == PathId::bounce) {
    report.bounced_bytes = report.bytes;
    report.bounced_reason = report.reason;
  }
  return report;
}

void PartsProgress::add(std::uint64_t begin, std::uint64_t size, const Outcome& outcome) {
  progress_.add(begin, size, {outcome.status, noted(begin == progress_.begin(), outcome.report)});
}

void PartsProgress::take_in_scattered(bool is_first, const Report& report) {
  progress_.add(progress_.begin(), report.bytes, {success(), noted(is_first, report)});
}

Outcome PartsProgress::outcome() const {
  Outcome outcome{progress_.status(), first_};
  progress_.fill_report(outcome.report);
  if (first_.path == PathId::bounce) {
    outcome.report = first_;  // fill_report() would also count bytes that went by another path than the first part's.
    outcome.report.bytes = progress_.bytes();
    outcome.report.direct_bytes = progress_.direct_bytes();
  }
  return outcome;
}

}  // namespace penstock::core
