// SPDX-License-Identifier: Apache-2.0

// A hash of 64 bits beside CRC32C, for callers who take equal bytes for granted where both are equal. It is made of
// other arithmetic, so that what one misses the other sees: products of 64-bit words, where CRC32C is linear. It finds
// mistakes, and resists nobody who wants two contents to be equal.
//
// Words are eight bytes, little-endian, the last one of a block filled up with zeros. mix() is a permutation (the last
// step of SplitMix64). Additions are modulo 2^64. Words of a block and blocks of a hash are counted from 1:
//   block of up to 64 KiB:  the sum of mix(word + number * kGolden)
//   hash:                   mix(bytes + the sum of mix(block + number * kGolden))
// So blocks, and words within one, may be added in any order, by any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::core {

class Hash64 {
 public:
  static constexpr std::size_t kBlockBytes = 64u << 10;
  static constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

  static constexpr std::uint64_t mix(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }

  // Returns the sum of a block's whole words.
  using OfWords = std::uint64_t (*)(const std::byte* bytes, std::size_t words);
  // The ways that this CPU has, the fastest first. All return the same.
  static std::span<const OfWords> ways();

  // Returns what a block of at most kBlockBytes adds. Its bytes may be at any address.
  static std::uint64_t of_block(std::span<const std::byte> block);

  // Adds the next block; all but the last one have kBlockBytes.
  void add(std::uint64_t block, std::uint64_t bytes) {
    sum_ += mix(block + ++blocks_ * kGolden);
    bytes_ += bytes;
  }
  std::uint64_t value() const { return mix(sum_ + bytes_); }

 private:
  std::uint64_t sum_ = 0, blocks_ = 0, bytes_ = 0;
};

// Both checksums of a piece of memory, which are equal where its bytes are.
struct Fingerprint {
  std::uint32_t crc32c = 0;
  std::uint64_t hash64 = 0;
  bool operator==(const Fingerprint&) const = default;
};

// Reads the bytes from memory once.
Fingerprint fingerprint(std::span<const std::byte> bytes);
// Adds bytes behind those before, of which there were whole blocks.
void add_to_fingerprint(std::span<const std::byte> bytes, std::uint32_t& crc32c, Hash64& hash);

}  // namespace penstock::core
