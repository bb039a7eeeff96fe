// SPDX-License-Identifier: Apache-2.0

#include "checksum/hash64.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "checksum/crc32c.h"

namespace penstock::core {
namespace {

std::vector<std::byte> bytes_of(std::size_t size, unsigned seed = 3) {
  std::vector<std::byte> bytes(size);
  std::mt19937 random(seed);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  return bytes;
}

// It does what the header says, word by word.
std::uint64_t by_the_book(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += Hash64::kBlockBytes) {
    std::uint64_t block = 0;
    const std::size_t end = std::min(at + Hash64::kBlockBytes, bytes.size());
    for (std::size_t i = at; i < end; i += 8) {
      std::uint64_t word = 0;
      for (std::size_t k = i; k < std::min(i + 8, end); ++k)
        word |= std::to_integer<std::uint64_t>(bytes[k]) << 8 * (k - i);
      block += Hash64::mix(word + ((i - at) / 8 + 1) * Hash64::kGolden);
    }
    sum += Hash64::mix(block + (at / Hash64::kBlockBytes + 1) * Hash64::kGolden);
  }
  return Hash64::mix(sum + bytes.size());
}

TEST(Hash64Test, OfEverySizeAtEveryAlignmentIsTheOneOfTheBook) {
  const std::vector<std::byte> bytes = bytes_of(3 * Hash64::kBlockBytes + 100);
  for (const std::size_t at : {0, 1, 3, 8, 15, 63}) {
    for (const std::size_t size : {0,  1,   7,   8,    9,     15,    16,    31,     32,     33,     63,     64,
                                   65, 127, 128, 4095, 65535, 65536, 65537, 131071, 131072, 131080, 196608, 196637}) {
      const auto part = std::span(bytes).subspan(at, size);
      ASSERT_EQ(fingerprint(part), (Fingerprint{crc32c(part), by_the_book(part)})) << size << " bytes from " << at;
    }
  }
}

// A checkpoint that one CPU has written is verified by another.
TEST(Hash64Test, EveryWayOfThisCpuReturnsTheSame) {
  const std::vector<std::byte> bytes = bytes_of(Hash64::kBlockBytes + 8);
  ASSERT_FALSE(Hash64::ways().empty());
  for (const std::size_t words : {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 8191, 8192}) {
    for (const std::size_t at : {0, 1, 5}) {
      std::uint64_t expected = 0;
      for (std::size_t i = 0; i < words; ++i) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data() + at + 8 * i, sizeof word);
        expected += Hash64::mix(word + (i + 1) * Hash64::kGolden);
      }
      for (const Hash64::OfWords way : Hash64::ways()) EXPECT_EQ(way(bytes.data() + at, words), expected) << words;
    }
  }
}

// Fixed, so that checkpoints of one release mean the same to the next.
TEST(Hash64Test, ItsValuesStay) {
  EXPECT_EQ(fingerprint({}).hash64, 0u);
  EXPECT_EQ(fingerprint(std::as_bytes(std::span("abc", 3))).hash64, 0xc219b21f4c36e355u);
  EXPECT_EQ(fingerprint(std::vector<std::byte>(100'000)).hash64, 0x37bedf7c97a8edf7u);
}

TEST(Hash64Test, ABitThatChangesTwoWordsThatChangePlacesAndZerosThatAreAddedChangeIt) {
  std::vector<std::byte> bytes(2 * Hash64::kBlockBytes);
  std::set<std::uint64_t> seen = {fingerprint(bytes).hash64};
  std::size_t count = 1;
  for (std::size_t at = 0; at < bytes.size(); at += 1021, ++count) {  // A one anywhere among zeros.
    bytes[at] = std::byte{1};
    seen.insert(fingerprint(bytes).hash64);
    bytes[at] = std::byte{0};
  }
  for (std::size_t more = 1; more < 20; ++more, ++count) {
    seen.insert(fingerprint(std::vector<std::byte>(bytes.size() + more)).hash64);
  }
  EXPECT_EQ(seen.size(), count);
}

// CRC32C is linear: changes that are multiples of its polynomial leave it as it is.
TEST(Hash64Test, WhatCrc32cDoesNotSeeItSees) {
  std::vector<std::byte> bytes = bytes_of(4096), other = bytes;
  constexpr unsigned char kPolynomial[] = {0xf1, 0x76, 0xec, 0x05, 0x01};  // With its highest power first.
  for (std::size_t i = 0; i < sizeof kPolynomial; ++i) other[1000 + i] ^= std::byte{kPolynomial[i]};
  ASSERT_EQ(crc32c(bytes), crc32c(other));
  ASSERT_NE(bytes, other);
  EXPECT_NE(fingerprint(bytes).hash64, fingerprint(other).hash64);
}

}  // namespace
}  // namespace penstock::core
