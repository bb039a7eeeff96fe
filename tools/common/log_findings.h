// SPDX-License-Identifier: Apache-2.0

// Finds known causes in a log: the table has some, Penstock's reasons are known by their names, and lines that Penstock
// itself has written say their cause. Throws a Failure if it cannot be read; the log's text is untrusted.
#pragma once

#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace penstock::tools {

struct LogCause;

struct LogFinding {
  std::string cause;  // "compat_mode"
  std::string meaning;
  std::string remedy;  // "" if none is known.
  std::string source;
  std::string file;
  std::size_t line = 0;   // The first line that matches, from 1.
  std::size_t count = 0;  // Of lines.
  std::string text;       // The first matching line, possibly truncated.
};

const LogCause* cause_of(std::string_view line);  // Null for none, and for a line of Penstock's own.

// The lines of a log that no cause is known for; empty ones are left out, and those of a file that is no text.
struct UnknownLines {
  std::size_t count = 0;
  std::vector<std::string> first;      // "cufile.log:3"; the first eight.
  std::vector<std::string> no_text;    // Files with zero bytes.
  std::vector<std::string> cut_short;  // "cufile.log:3": the line with which the reading ended before the file did.
};

// The answer about several logs: one finding for each cause, in the order of the lines that have them.
struct LogAnswer {
  std::vector<LogFinding> findings;
  UnknownLines unknown;
  std::unordered_map<std::string, std::size_t> places;  // The place of each finding, by what it says.
  // The last line that shows whether cuFile's compatibility mode was allowed, if any does.
  struct CompatLine {
    std::string file;
    std::size_t line = 0;
    bool is_allowed = false;
  };
  std::optional<CompatLine> compat;
  std::optional<CompatLine> contrary;  // The last line before it that shows the contrary, in the same log.
};

// Adds a log. The reading ends early where a line, or bytes of no text, are endless (16 MiB), and when the user
// interrupts it.
void read_log(std::FILE* log, const std::string& file, LogAnswer& answer);

}  // namespace penstock::tools
