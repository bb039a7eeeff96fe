// SPDX-License-Identifier: Apache-2.0

#include "checksum/crc32c.h"

#include <array>
#include <cstring>

#include "checksum/polynomial.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace penstock::core {
namespace {

using polynomial::multiply;
using polynomial::shift_of;
using polynomial::times_x;

using Table = std::array<std::array<std::uint32_t, 256>, 8>;

// Element [k][b] belongs to a byte b with k zero bytes behind it.
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

// The instruction takes three cycles, and one can begin in each cycle: three lanes keep it busy.
constexpr std::size_t kLane = 4096;

constexpr polynomial::Products kOneLane = polynomial::products_of(shift_of(kLane));
constexpr polynomial::Products kTwoLanes = polynomial::products_of(shift_of(2 * kLane));

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

std::uint32_t Crc32cCombiner::operator()(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  if (first == 0) return second;  // 0 is the checksum of no bytes, and stays 0 when shifted.
  if (second_bytes != bytes_) shift_ = shift_of(bytes_ = second_bytes);
  return multiply(shift_, first) ^ second;
}

// A checksum starts with all bits set in front of the bytes, and all bits are inverted at the end.
std::uint32_t crc32c_of_zeros(std::uint64_t bytes) { return ~multiply(shift_of(bytes), ~0u); }

}  // namespace penstock::core
