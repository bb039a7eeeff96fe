// SPDX-License-Identifier: Apache-2.0

// The library's log: one file of lines, written only when there is something of the level that was asked for. Each line
// is one open, append and close, so nothing is held, rotation works, and a fork finds no lock. A line that cannot be
// written is dropped: a log never makes anything fail. A file that is there already is added to, or begun anew, only
// where it begins as a log of cuFile's does, ours or NVIDIA's: no other file is ever changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::core {

// The levels have cuFile's names; each level includes those before it.
enum class LogLevel : std::uint8_t { notice, error, warn, info, debug, trace };
std::optional<LogLevel> log_level_named(std::string_view name);  // "ERROR", ...

struct LogTarget {
  std::string path;  // "" for no log. A relative one is of the directory in which log_to() is called.
  LogLevel level = LogLevel::error;
  std::uint64_t bytes_max = 0;  // Begins anew beyond; 0: grows without end.
  friend bool operator==(const LogTarget&, const LogTarget&) = default;
};

void log_to(LogTarget target);
// True where a file is there already and is no log: nothing will be written to it.
bool is_no_log(const std::string& path);
bool logs(LogLevel level);
// One line. Control characters become question marks, so that no text looks like a line of its own.
void log(LogLevel level, std::string_view text, const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace penstock::core
