// SPDX-License-Identifier: Apache-2.0

// Whole numbers in text. Pure.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace penstock::core {

// All of `text` as a number; nothing if it is none, has more beside it, or is too large for a Number.
template <typename Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace penstock::core
