// SPDX-License-Identifier: Apache-2.0

#include "checksum/hash64.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "checksum/crc32c.h"

namespace penstock::core {
namespace {

static_assert(std::endian::native == std::endian::little);

// Adds whole words, of which the first has the number `number`.
std::uint64_t add_words(const std::byte* bytes, std::size_t words, std::uint64_t number) {
  std::uint64_t sum = 0;
  for (std::uint64_t key = number * Hash64::kGolden; words > 0; --words, bytes += 8, key += Hash64::kGolden) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof word);
    sum += Hash64::mix(word + key);
  }
  return sum;
}

std::uint64_t hash_words(const std::byte* bytes, std::size_t words) { return add_words(bytes, words, 1); }

#if defined(__x86_64__)

template <std::size_t kLanes>
struct Vector {
  typedef std::uint64_t Type __attribute__((vector_size(8 * kLanes)));
};

// The same for `kLanes` words at a time. On an EPYC of 2026 a CPU hashes 10 GB/s word by word, 16 GB/s by four and
// 31 GB/s by eight.
template <std::size_t kLanes>
[[gnu::always_inline]] inline std::uint64_t hash_by_lanes(const std::byte* bytes, std::size_t words) {
  using Lanes = typename Vector<kLanes>::Type;
  Lanes sum{}, keys{};
  for (std::size_t i = 0; i < kLanes; ++i) keys[i] = Hash64::kGolden * (i + 1);
  std::size_t done = 0;
  for (; done + kLanes <= words; done += kLanes) {
    Lanes word;
    std::memcpy(&word, bytes + 8 * done, sizeof word);
    word += keys;
    keys += kLanes * Hash64::kGolden;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    sum += word ^ (word >> 31);
  }
  std::uint64_t whole = add_words(bytes + 8 * done, words - done, done + 1);
  for (std::size_t i = 0; i < kLanes; ++i) whole += sum[i];
  return whole;
}

__attribute__((target("avx2"))) std::uint64_t hash_by_four(const std::byte* bytes, std::size_t words) {
  return hash_by_lanes<4>(bytes, words);
}
__attribute__((target("avx512f,avx512dq"))) std::uint64_t hash_by_eight(const std::byte* bytes, std::size_t words) {
  return hash_by_lanes<8>(bytes, words);
}

constexpr Hash64::OfWords kWays[] = {hash_by_eight, hash_by_four, hash_words};

std::size_t first_way() {
  if (__builtin_cpu_supports("avx512dq")) return 0;
  return __builtin_cpu_supports("avx2") ? 1 : 2;
}

#else

constexpr Hash64::OfWords kWays[] = {hash_words};

std::size_t first_way() { return 0; }

#endif

}  // namespace

std::span<const Hash64::OfWords> Hash64::ways() { return std::span(kWays).subspan(first_way()); }

std::uint64_t Hash64::of_block(std::span<const std::byte> block) {
  static const OfWords hash = ways().front();
  const std::size_t words = block.size() / 8;
  std::uint64_t sum = hash(block.data(), words);
  if (const auto rest = block.subspan(8 * words); !rest.empty()) {
    std::uint64_t word = 0;
    std::memcpy(&word, rest.data(), rest.size());
    sum += mix(word + (words + 1) * kGolden);
  }
  return sum;
}

// A block stays in the CPU's cache from one checksum to the other.
void add_to_fingerprint(std::span<const std::byte> bytes, std::uint32_t& crc, Hash64& hash) {
  while (!bytes.empty()) {
    const auto block = bytes.first(std::min(bytes.size(), Hash64::kBlockBytes));
    crc = crc32c(block, crc);
    hash.add(Hash64::of_block(block), block.size());
    bytes = bytes.subspan(block.size());
  }
}

Fingerprint fingerprint(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0;
  Hash64 hash;
  add_to_fingerprint(bytes, crc, hash);
  return {crc, hash.value()};
}

}  // namespace penstock::core
