// SPDX-License-Identifier: Apache-2.0

// The element types of safetensors files, and the size of tensors. For the parser and the writer of headers, and for
// code that matches these types with its own. Nothing here looks into elements. If memory is short for a sentence,
// std::bad_alloc passes through.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weights/outcome.h"

namespace penstock::core {

// In the order of the format, by which writers sort. The numbers are internal and in no file.
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
  std::uint32_t bits;     // The bits of one element: 4, 6 or whole bytes.
};

inline constexpr std::size_t kDtypeCount = 22;
extern const std::array<DtypeRow, kDtypeCount> kDtypes;  // By number.

std::string_view name_of(Dtype dtype);
std::uint32_t bits_of(Dtype dtype);
std::optional<Dtype> dtype_named(std::string_view name);

// The bytes of a tensor; an empty shape has one element. A fault if the elements do not end with a whole byte, or if 64
// bits cannot count the elements or their bits: a dimension of 0 helps only if it stands before those that are too
// many.
Outcome<std::uint64_t> tensor_bytes(Dtype dtype, std::span<const std::uint64_t> shape);

// A shape as text, "[2, 3]", cut after some dimensions.
std::string shown(std::span<const std::uint64_t> shape);

}  // namespace penstock::core
