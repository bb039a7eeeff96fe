// SPDX-License-Identifier: Apache-2.0

// A checksum is a polynomial over bits, kept with its highest power in the lowest bit. What comes in front of n more
// bytes is multiplied by x^8n; so pieces that were looked at apart, each from zero, are added up.
#include "checksum/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace penstock::core {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // Without its highest power.
constexpr std::uint32_t kOne = 0x80000000;         // x^0.

constexpr std::uint32_t times_x(std::uint32_t value) { return value & 1 ? (value >> 1) ^ kPolynomial : value >> 1; }

constexpr std::uint32_t multiply(std::uint32_t left, std::uint32_t right) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if (left & bit) product ^= right;
    right = times_x(right);
  }
  return product;
}

// x^8n: what stands for n bytes more.
constexpr std::uint32_t shift_of(std::uint64_t bytes) {
  std::uint32_t power = kOne, square = kOne;
  for (int i = 0; i < 8; ++i) square = times_x(square);
  for (; bytes != 0; bytes >>= 1) {
    if (bytes & 1) power = multiply(power, square);
    square = multiply(square, square);
  }
  return power;
}

using Table = std::array<std::array<std::uint32_t, 256>, 8>;

// [k][b]: a byte b with k bytes of zeros behind it.
constexpr Table byte_table() {
  Table table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int i = 0; i < 8; ++i) value = times_x(value);
    table[0][byte] = value;
  }
  for (std::size_t k = 1; k < table.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = table[k - 1][byte];
      table[k][byte] = (before >> 8) ^ table[0][before & 0xff];
    }
  }
  return table;
}
constexpr Table kBytes = byte_table();

std::uint64_t word_at(const std::byte* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

std::uint32_t add_by_tables(std::uint32_t crc, const std::byte* bytes, std::size_t size) {
  for (; size >= 8; bytes += 8, size -= 8) {
    const std::uint64_t word = word_at(bytes) ^ crc;
    crc = 0;
    for (unsigned k = 0; k < 8; ++k) crc ^= kBytes[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; size > 0; ++bytes, --size) crc = (crc >> 8) ^ kBytes[0][(crc ^ static_cast<std::uint32_t>(*bytes)) & 0xff];
  return crc;
}

#if defined(__x86_64__) || (defined(__aarch64__) && defined(__ARM_FEATURE_CRC32))

#if defined(__x86_64__)
#define PENSTOCK_CRC_TARGET __attribute__((target("sse4.2")))
PENSTOCK_CRC_TARGET inline std::uint64_t add_word(std::uint64_t crc, std::uint64_t word) {
  return _mm_crc32_u64(crc, word);
}
PENSTOCK_CRC_TARGET inline std::uint32_t add_byte(std::uint32_t crc, std::byte byte) {
  return _mm_crc32_u8(crc, static_cast<std::uint8_t>(byte));
}
bool has_instruction() { return __builtin_cpu_supports("sse4.2"); }
#else
#define PENSTOCK_CRC_TARGET
inline std::uint64_t add_word(std::uint64_t crc, std::uint64_t word) {
  return __crc32cd(static_cast<std::uint32_t>(crc), word);
}
inline std::uint32_t add_byte(std::uint32_t crc, std::byte byte) {
  return __crc32cb(crc, static_cast<std::uint8_t>(byte));
}
bool has_instruction() { return true; }
#endif

// The instruction takes three cycles, and one can begin in each: three lanes keep it busy.
constexpr std::size_t kLane = 4096;

struct ShiftTable {
  std::array<std::array<std::uint32_t, 256>, 4> rows{};
  std::uint32_t operator()(std::uint32_t crc) const {
    return rows[0][crc & 0xff] ^ rows[1][(crc >> 8) & 0xff] ^ rows[2][(crc >> 16) & 0xff] ^ rows[3][crc >> 24];
  }
};

constexpr ShiftTable shift_table(std::uint64_t bytes) {
  ShiftTable table;
  const std::uint32_t factor = shift_of(bytes);
  for (std::uint32_t row = 0; row < 4; ++row) {
    // The products of single bits; those of all others are their sums.
    for (std::uint32_t bit = 0; bit < 8; ++bit) {
      table.rows[row][std::size_t{1} << bit] = multiply(factor, std::uint32_t{1} << (8 * row + bit));
    }
    for (std::size_t byte = 1; byte < 256; ++byte) {
      const std::size_t lowest = byte & (~byte + 1);
      table.rows[row][byte] = table.rows[row][lowest] ^ table.rows[row][byte ^ lowest];
    }
  }
  return table;
}
constexpr ShiftTable kOneLane = shift_table(kLane), kTwoLanes = shift_table(2 * kLane);

PENSTOCK_CRC_TARGET std::uint32_t add_by_instruction(std::uint32_t crc, const std::byte* bytes, std::size_t size) {
  for (; size >= 3 * kLane; bytes += 3 * kLane, size -= 3 * kLane) {
    std::uint64_t first = crc, second = 0, third = 0;
    for (std::size_t at = 0; at < kLane; at += 8) {
      first = add_word(first, word_at(bytes + at));
      second = add_word(second, word_at(bytes + kLane + at));
      third = add_word(third, word_at(bytes + 2 * kLane + at));
    }
    crc = kTwoLanes(static_cast<std::uint32_t>(first)) ^ kOneLane(static_cast<std::uint32_t>(second)) ^
          static_cast<std::uint32_t>(third);
  }
  for (; size >= 8; bytes += 8, size -= 8) crc = static_cast<std::uint32_t>(add_word(crc, word_at(bytes)));
  for (; size > 0; ++bytes, --size) crc = add_byte(crc, *bytes);
  return crc;
}

#else

bool has_instruction() { return false; }
std::uint32_t add_by_instruction(std::uint32_t crc, const std::byte* bytes, std::size_t size) {
  return add_by_tables(crc, bytes, size);
}

#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  static const bool by_instruction = has_instruction();
  if (!by_instruction) return crc32c_by_tables(bytes, before);
  return ~add_by_instruction(~before, bytes.data(), bytes.size());
}

std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes, std::uint32_t before) {
  return ~add_by_tables(~before, bytes.data(), bytes.size());
}

std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  return multiply(shift_of(second_bytes), first) ^ second;
}

}  // namespace penstock::core
