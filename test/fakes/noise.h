// SPDX-License-Identifier: Apache-2.0

// Content for files of tests: bytes that repeat nowhere, the same for the same seed.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>

namespace penstock::core {

inline std::string noise(std::size_t size, std::uint64_t seed) {
  std::string content(size, '\0');
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(content.data() + i, &word, 8);
  }
  return content;
}

}  // namespace penstock::core
