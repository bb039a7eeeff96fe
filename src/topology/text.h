// SPDX-License-Identifier: Apache-2.0

// Small parsers for the text of /proc and /sys. They accept any text and never fail loudly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/number_text.h"

namespace penstock::core {

inline std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Cuts the next piece up to `separator` off the front of `rest`.
inline std::string_view take_until(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view piece = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return piece;
}

inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const std::string_view piece = take_until(text, separator);
    if (!piece.empty()) pieces.push_back(piece);
  }
  return pieces;
}

inline std::string_view last_component(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// "8:16" as a pair of numbers.
struct DeviceNumber {
  unsigned major = 0;
  unsigned minor = 0;
  friend bool operator==(const DeviceNumber&, const DeviceNumber&) = default;
};

inline std::optional<DeviceNumber> parse_device_number(std::string_view text) {
  const std::string_view major = take_until(text, ':');
  const auto first = parse_number<unsigned>(major);
  const auto second = parse_number<unsigned>(text);
  if (!first || !second) return std::nullopt;
  return DeviceNumber{*first, *second};
}

// The value of the first line "key<separator> value", trimmed, or "".
inline std::string_view value_of(std::string_view text, std::string_view key, char separator) {
  while (!text.empty()) {
    std::string_view line = take_until(text, '\n');
    if (trim(take_until(line, separator)) == key) return trim(line);
  }
  return {};
}

}  // namespace penstock::core
