// SPDX-License-Identifier: Apache-2.0

// The report of a process about its sessions, if the setting penstock.report asks for one: for people, and as JSON.
// Pure; capi/process_report.h gathers and writes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/io.h"
#include "core/paths.h"
#include "core/reason.h"
#include "stats/counters.h"
#include "stats/usage.h"

namespace penstock::core {

constexpr std::size_t kReportFilesMax = 64;      // The files with the most bytes; the others are summed up.
constexpr std::size_t kReportTextFilesMax = 16;  // The files among these that took longest.

struct UsageReport {
  struct Moved {
    PathId path = PathId::bounce;
    Reason reason = Reason::none;
    Op op = Op::read;
    Count count;
  };

  std::int64_t pid = 0;
  std::string program;
  std::string library;            // The file name of the library that the program called.
  std::uint64_t nanoseconds = 0;  // Since the first session opened.
  std::uint64_t busy_ns = 0;      // The part in which at least one request was in flight.
  unsigned sessions = 0;          // Sessions that were opened.
  unsigned sessions_open = 0;     // Sessions that were still open when the process ended.
  std::string placement;          // Threads and memory of the session that was opened last.
  std::vector<Moved> ways;
  std::uint64_t direct_bytes = 0;  // The part of them that went by O_DIRECT; the rest went through the page cache.
  std::vector<Usage::File> files;
  FileSums others;  // Files without a row.
  std::uint64_t others_opened = 0;
};

// Adds all bytes that a session has counted, by their ways.
void add_bytes(UsageReport& report, const Counters& counters);

std::string report_text(const UsageReport& report);  // Lines, fit for a terminal.
std::string report_json(const UsageReport& report);

}  // namespace penstock::core
