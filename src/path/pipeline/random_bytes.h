// SPDX-License-Identifier: Apache-2.0

// Bytes for tests of a path. They are never the same twice, since an earlier test's must not pass for a success.
#pragma once

#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <random>

namespace penstock::core {

// std::random_device throws, and with GCC 12 asks for glibc 2.36.
inline std::uint64_t fresh_seed() {
  std::uint64_t seed;
  return ::getrandom(&seed, sizeof seed, 0) == sizeof seed ? seed : static_cast<std::uint64_t>(::time(nullptr));
}

// `size` is a multiple of 8.
inline void fill_with_random(std::byte* memory, std::size_t size, std::mt19937_64& words) {
  for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = words();
    std::memcpy(memory + at, &word, sizeof word);
  }
}

}  // namespace penstock::core
