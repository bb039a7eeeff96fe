// SPDX-License-Identifier: Apache-2.0

#include "tools/common/units.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <utility>

#include "base/size_text.h"

namespace penstock::tools {
namespace {

constexpr std::string_view kLetters = "kMGTP";

char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

// The power of 1024 that a suffix stands for; nothing if it is no suffix.
std::optional<unsigned> power_of(std::string_view suffix) {
  if (suffix.empty() || suffix == "B") return 0;
  for (unsigned i = 0; i < kLetters.size(); ++i) {
    if (lower(suffix[0]) != lower(kLetters[i])) continue;
    const std::string_view rest = suffix.substr(1);
    if (rest.empty() || rest == "i" || rest == "iB" || rest == "ib") return i + 1;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || rest == text.data()) return std::nullopt;
  const std::optional<unsigned> power = power_of({rest, static_cast<std::size_t>(end - rest)});
  if (!power) return std::nullopt;
  const unsigned shift = 10 * *power;
  if (value > (static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) >> shift)) return std::nullopt;
  return value << shift;
}

std::string size_argument(std::uint64_t bytes) {
  for (const auto& [letter, shift] : {std::pair{'T', 40}, {'G', 30}, {'M', 20}, {'K', 10}}) {
    const std::uint64_t whole = bytes >> shift;
    if (whole > 0 && whole << shift == bytes) return fmt::format("{}{}", whole, letter);
  }
  return std::to_string(bytes);
}

std::string format_size(std::uint64_t bytes) { return core::size_text(bytes); }

std::string format_rate(double bytes_per_second) {
  if (bytes_per_second < 1e8) return fmt::format("{:.2f} MB/s", bytes_per_second / 1e6);
  return fmt::format("{:.2f} GB/s", bytes_per_second / 1e9);
}

std::string format_duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.2f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

double gigabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e9; }
double gibibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

}  // namespace penstock::tools
