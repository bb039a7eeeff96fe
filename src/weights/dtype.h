// SPDX-License-Identifier: Apache-2.0

// The types of elements that safetensors files know, and what a tensor of them takes. For the parser and the writer
// of headers, and for those who match these types with their own. Nothing here looks into elements. Where memory is
// short for a sentence, std::bad_alloc passes through.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weights/outcome.h"

namespace penstock::core {

// In the order that the format gives them: writers sort by it. The numbers are ours alone and in no file.
enum class Dtype : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};

struct DtypeRow {
  Dtype dtype;
  std::string_view name;  // The name in files.
  std::uint32_t bits;     // One element's: 4, 6 or whole bytes.
};

inline constexpr std::size_t kDtypeCount = 22;
extern const std::array<DtypeRow, kDtypeCount> kDtypes;  // By number.

std::string_view name_of(Dtype dtype);
std::uint32_t bits_of(Dtype dtype);
std::optional<Dtype> dtype_named(std::string_view name);

// Bytes of a tensor; an empty shape has one element. A fault if the elements end within a byte, or if they or their
// bits are more than 64 bits can count: a dimension of 0 helps only if it stands before those that are too many.
Outcome<std::uint64_t> tensor_bytes(Dtype dtype, std::span<const std::uint64_t> shape);

// "[2, 3]", cut after some dimensions.
std::string shown(std::span<const std::uint64_t> shape);

}  // namespace penstock::core
