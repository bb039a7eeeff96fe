// SPDX-License-Identifier: Apache-2.0

// The keys of DeepSpeed that have to do with files, by its source, and what it takes for each. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace penstock::tools {

constexpr const char* kDeepSpeedVersion = "0.19.8";  // Whose source the table was made by.

enum class DeepSpeedKind : std::uint8_t { boolean, whole, fraction, word, path, block };

struct DeepSpeedKey {
  std::string_view block;  // "aio", "zero_optimization.offload_param"
  std::string_view name;
  DeepSpeedKind kind;
  const char* initial;          // Its default, as one would write it.
  std::string_view words = "";  // Of a word, with blanks between; any case.
  std::int64_t low = 0;         // Of a whole number: DeepSpeed cannot work with less,
  std::int64_t high = 0;        // or with more; 0: no bound.
  std::int64_t sensible = 0;    // More makes no sense; 0: no bound.
  const char* meaning;
};

struct DeepSpeedBlock {
  std::string_view name;
  bool refuses_unknown;  // Whether DeepSpeed ends with an unknown key, or reads past it.
  bool takes_auto;       // "auto" stands for the default.
};

std::span<const DeepSpeedKey> deepspeed_keys();
std::span<const DeepSpeedBlock> deepspeed_blocks();
const DeepSpeedKey* deepspeed_key(std::string_view block, std::string_view name);
// The key of the block that was probably meant; "" where none was.
std::string_view deepspeed_key_near(std::string_view block, std::string_view name);
// "true or false", "a whole number, 1 to 64", "one of mock, python, fast".
std::string takes_text(const DeepSpeedKey& key);

}  // namespace penstock::tools
