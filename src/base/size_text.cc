// SPDX-License-Identifier: Apache-2.0

#include "base/size_text.h"

#include <cstdio>
#include <string_view>

namespace penstock::core {

std::string size_text(std::uint64_t bytes) {
  constexpr std::string_view kLetters = "KMGTP";
  unsigned power = 0;
  while (power < kLetters.size() && (bytes >> (10 * (power + 1))) != 0) ++power;
  if (power == 0) return std::to_string(bytes) + " B";
  const std::uint64_t unit = std::uint64_t{1} << (10 * power);
  const std::string suffix = std::string(" ") + kLetters[power - 1] + "iB";
  if (bytes % unit == 0) return std::to_string(bytes / unit) + suffix;
  char number[32] = "";
  std::snprintf(number, sizeof number, "%.2f", static_cast<double>(bytes) / static_cast<double>(unit));
  return number + suffix;
}

}  // namespace penstock::core
