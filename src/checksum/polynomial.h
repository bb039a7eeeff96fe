// SPDX-License-Identifier: Apache-2.0

// The arithmetic behind CRC32C: polynomials over bits, modulo Castagnoli's, stored with their highest power in the
// lowest bit. A checksum is linear: bits in front of n more bits are multiplied by x^n, and the results of separate
// pieces are added.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock::core::polynomial {

inline constexpr std::uint32_t kModulus = 0x82f63b78;  // Without its highest power.
inline constexpr std::uint32_t kOne = 0x80000000;      // x^0.

constexpr std::uint32_t times_x(std::uint32_t value) { return value & 1 ? (value >> 1) ^ kModulus : value >> 1; }

constexpr std::uint32_t multiply(std::uint32_t left, std::uint32_t right) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if (left & bit) product ^= right;
    right = times_x(right);
  }
  return product;
}

// Returns x^(8 * bytes), the factor that shifts a checksum by so many bytes.
constexpr std::uint32_t shift_of(std::uint64_t bytes) {
  std::uint32_t power = kOne, square = kOne;
  for (int i = 0; i < 8; ++i) square = times_x(square);
  for (; bytes != 0; bytes >>= 1) {
    if (bytes & 1) power = multiply(power, square);
    square = multiply(square, square);
  }
  return power;
}

// The products of one factor with every value of each byte of a word; a word's product is their sum.
struct Products {
  std::array<std::array<std::uint32_t, 256>, 4> rows{};
  constexpr std::uint32_t operator()(std::uint32_t value) const {
    return rows[0][value & 0xff] ^ rows[1][(value >> 8) & 0xff] ^ rows[2][(value >> 16) & 0xff] ^ rows[3][value >> 24];
  }
};

constexpr Products products_of(std::uint32_t factor) {
  Products products;
  for (std::uint32_t row = 0; row < 4; ++row) {
    // The products of single bits; every other product is a sum of them.
    for (std::uint32_t bit = 0; bit < 8; ++bit) {
      products.rows[row][std::size_t{1} << bit] = multiply(factor, std::uint32_t{1} << (8 * row + bit));
    }
    for (std::size_t byte = 1; byte < 256; ++byte) {
      const std::size_t lowest = byte & (~byte + 1);
      products.rows[row][byte] = products.rows[row][lowest] ^ products.rows[row][byte ^ lowest];
    }
  }
  return products;
}

}  // namespace penstock::core::polynomial
