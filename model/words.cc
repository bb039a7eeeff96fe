// SPDX-License-Identifier: Apache-2.0

#include "model/words.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>

namespace penstock::model {

// Blocks have round sizes in binary units, models in decimal ones.
std::string size_in_words(double bytes) {
  constexpr std::array kBinary = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  constexpr std::array kDecimal = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes == std::floor(bytes) && bytes > 0 && bytes < 0x1p63) {
    auto whole = static_cast<std::uint64_t>(bytes);
    std::size_t unit = 0;
    for (; whole % 1024 == 0 && unit + 1 < kBinary.size(); ++unit) whole /= 1024;
    if (whole < 1024) return fmt::format("{} {}", whole, kBinary.at(unit));
  }
  std::size_t unit = 0;
  for (; std::abs(bytes) >= 1000 && unit + 1 < kDecimal.size(); ++unit) bytes /= 1000;
  return fmt::format("{:.4g} {}", bytes, kDecimal.at(unit));
}

std::string time_in_words(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds < 1e-6) return fmt::format("{:.3g} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 0x1p53) return "for ever";
  const auto whole = static_cast<std::uint64_t>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string rate_in_words(double bytes_per_s) { return count_in_words(bytes_per_s / 1e9) + " GB/s"; }

std::string count_in_words(double value) {
  constexpr double kBillion = 1e9, kTiniest = 1e-12;
  const double size = std::abs(value);
  if (size >= kBillion && size < 1e15) return fmt::format("{:.6g} billion", value / kBillion);
  const bool is_whole = value == std::floor(value);
  if (size < kBillion && (is_whole || size >= 1e4)) return fmt::format("{:.0f}", value);
  if (size < 1e-4 && size > kTiniest) {  // Keeps all digits.
    return fmt::format("{:.{}f}", value, 3 - static_cast<int>(std::floor(std::log10(size))));
  }
  return fmt::format("{:.4g}", value);
}

}  // namespace penstock::model
