// SPDX-License-Identifier: Apache-2.0

// Arithmetic on powers of two.
#pragma once

#include <cstdint>

namespace penstock::core {

constexpr bool is_power_of_two(std::uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

// `alignment` is a power of two throughout.
constexpr std::uint64_t align_down(std::uint64_t value, std::uint64_t alignment) { return value & ~(alignment - 1); }
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return align_down(value + alignment - 1, alignment);
}
constexpr bool is_aligned(std::uint64_t value, std::uint64_t alignment) { return (value & (alignment - 1)) == 0; }

}  // namespace penstock::core
