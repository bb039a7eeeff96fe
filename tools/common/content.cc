// SPDX-License-Identifier: Apache-2.0

#include "tools/common/content.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace penstock::tools {
namespace {

constexpr std::size_t kWordsAtOnce = 512;
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;
constexpr double kDeviation = 0.02;  // Typical for the weights of a transformer's layers.

std::uint16_t bfloat16_of(double value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
}

// The upper quantile of the normal distribution, by bisection on erfc. It is called 32768 times, which takes a few
// milliseconds.
double normal_quantile(double probability) {
  double low = 0, high = 6;
  for (int i = 0; i < 20; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

void Content::fill(std::span<std::byte> bytes, std::uint64_t offset) const {
  std::array<std::uint64_t, kWordsAtOnce> buffer;
  while (!bytes.empty()) {
    const std::size_t skip = offset % 8;
    const std::size_t size = std::min(bytes.size(), kWordsAtOnce * 8 - skip);
    words(offset / 8, std::span(buffer).first((skip + size + 7) / 8));
    std::memcpy(bytes.data(), reinterpret_cast<const std::byte*>(buffer.data()) + skip, size);
    bytes = bytes.subspan(size);
    offset += size;
  }
}

std::optional<std::size_t> Content::first_difference(std::span<const std::byte> bytes, std::uint64_t offset) const {
  std::array<std::byte, kWordsAtOnce * 8> expected;
  for (std::size_t at = 0; at < bytes.size(); at += expected.size()) {
    const std::size_t size = std::min(expected.size(), bytes.size() - at);
    fill(std::span(expected).first(size), offset + at);
    if (std::memcmp(bytes.data() + at, expected.data(), size) == 0) continue;
    const auto difference = std::mismatch(expected.begin(), expected.begin() + size, bytes.data() + at);
    return at + static_cast<std::size_t>(difference.first - expected.begin());
  }
  return std::nullopt;
}

void RandomContent::words(std::uint64_t first, std::span<std::uint64_t> out) const {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = scramble(key_ + (first + i) * kGolden);
}

WeightsContent::WeightsContent(std::uint64_t seed) : key_(scramble(seed + kGolden)), quantiles_(65536) {
  for (std::size_t i = 0; i < 32768; ++i) {
    const double value = kDeviation * normal_quantile(0.5 + (static_cast<double>(i) + 0.5) / 65536);
    quantiles_[i] = bfloat16_of(value);
    quantiles_[65535 - i] = bfloat16_of(-value);
  }
}

// By pointers: a build without optimisation, in which the tests fill gigabytes, calls each operator of a container.
void WeightsContent::words(std::uint64_t first, std::span<std::uint64_t> out) const {
  const std::uint16_t* const quantiles = quantiles_.data();
  std::uint64_t* const words = out.data();
  const std::size_t count = out.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t random = scramble(key_ + (first + i) * kGolden);
    words[i] = std::uint64_t{quantiles[random & 0xffff]} | std::uint64_t{quantiles[random >> 16 & 0xffff]} << 16 |
               std::uint64_t{quantiles[random >> 32 & 0xffff]} << 32 | std::uint64_t{quantiles[random >> 48]} << 48;
  }
}

}  // namespace penstock::tools
