// SPDX-License-Identifier: Apache-2.0

// Makes deterministic bytes for files. Every byte follows from its offset in the file and a seed, so that bytes written
// in one run can be checked in another, in any order and block size. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace penstock::tools {

// Scrambles 64 bits, fast; it also generates random offsets.
inline std::uint64_t scramble(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

class Content {
 public:
  virtual ~Content() = default;
  // Fills `bytes` with the content of the file at `offset`.
  void fill(std::span<std::byte> bytes, std::uint64_t offset) const;
  // The index of the first byte in `bytes` that differs from the content of the file at `offset`.
  std::optional<std::size_t> first_difference(std::span<const std::byte> bytes, std::uint64_t offset) const;

 private:
  // Writes the words [first, first + count) of the file; word i is at byte 8 * i.
  virtual void words(std::uint64_t first, std::span<std::uint64_t> out) const = 0;
};

// Incompressible content.
class RandomContent final : public Content {
 public:
  explicit RandomContent(std::uint64_t seed) : key_(scramble(seed + 0x9e3779b97f4a7c15u)) {}

 private:
  void words(std::uint64_t first, std::span<std::uint64_t> out) const override;
  std::uint64_t key_;
};

// Content like the weights of a model: bfloat16 numbers, normally distributed around zero with deviation 0.02.
class WeightsContent final : public Content {
 public:
  explicit WeightsContent(std::uint64_t seed);

 private:
  void words(std::uint64_t first, std::span<std::uint64_t> out) const override;
  std::uint64_t key_;
  std::vector<std::uint16_t> quantiles_;  // The i-th of 65536 equally likely values.
};

}  // namespace penstock::tools
