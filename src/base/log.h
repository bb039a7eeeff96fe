// SPDX-License-Identifier: Apache-2.0

// The library's log: a file of lines, written only if there is something of the chosen level. Each line is opened,
// appended and closed by itself, so that nothing is held, rotation works, and a fork finds no lock. A line that cannot
// be written is dropped: the log never makes anything fail. An existing file is appended to, or truncated, only if its
// first line is that of a cufile.log, Penstock's or NVIDIA's: no other file is ever changed.
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
  std::string path;  // "" for no log. A relative path starts at the working directory of the call to log_to().
  LogLevel level = LogLevel::error;
  std::uint64_t bytes_max = 0;  // The size at which the file is begun again; 0: no limit.
  friend bool operator==(const LogTarget&, const LogTarget&) = default;
};

void log_to(LogTarget target);
// True if the file exists and is no log: nothing will be written to it.
bool is_no_log(const std::string& path);
bool logs(LogLevel level);
// Writes one line. Control characters become question marks, so that no text can look like a further line.
void log(LogLevel level, std::string_view text, const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace penstock::core
