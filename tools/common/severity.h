// SPDX-License-Identifier: Apache-2.0

// The severity of a finding, for the commands that judge what others wrote. Pure.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace penstock::tools {

enum class Severity : std::uint8_t {
  note,     // Good to know.
  warning,  // It runs, but does something else than it seems to.
  error,    // It is refused, fails, or loses something.
};

inline const char* severity_name(Severity severity) {
  constexpr const char* kNames[] = {"note", "warning", "error"};
  return kNames[static_cast<std::size_t>(severity)];
}

// "1 error, 2 warnings, 0 notes"
inline std::string severity_summary(std::size_t errors, std::size_t warnings, std::size_t notes) {
  const auto counted = [](std::size_t number, Severity severity) {
    return fmt::format("{} {}{}", number, severity_name(severity), number == 1 ? "" : "s");
  };
  return fmt::format("{}, {}, {}", counted(errors, Severity::error), counted(warnings, Severity::warning),
                     counted(notes, Severity::note));
}

}  // namespace penstock::tools
