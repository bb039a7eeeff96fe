// SPDX-License-Identifier: Apache-2.0

#include "weights/dtype.h"

#include <algorithm>

namespace penstock::core {
namespace {

constexpr std::size_t kShownDimensions = 8;

constexpr bool is_by_number(const std::array<DtypeRow, kDtypeCount>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<std::size_t>(rows[i].dtype) != i) return false;
  }
  return true;
}

const DtypeRow& row_of(Dtype dtype) {
  const auto number = static_cast<std::size_t>(dtype);
  PENSTOCK_INVARIANT(number < kDtypes.size());
  return kDtypes[number];
}

Fault size_fault(Dtype dtype, std::span<const std::uint64_t> shape, const char* what) {
  return {std::string(name_of(dtype)) + " of shape " + shown(shape) + what};
}

}  // namespace

constexpr std::array<DtypeRow, kDtypeCount> kDtypes = {{
    {Dtype::boolean, "BOOL", 8},
    {Dtype::f4, "F4", 4},
    {Dtype::f6_e2m3, "F6_E2M3", 6},
    {Dtype::f6_e3m2, "F6_E3M2", 6},
    {Dtype::u8, "U8", 8},
    {Dtype::i8, "I8", 8},
    {Dtype::f8_e5m2, "F8_E5M2", 8},
    {Dtype::f8_e4m3, "F8_E4M3", 8},
    {Dtype::f8_e8m0, "F8_E8M0", 8},
    {Dtype::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
    {Dtype::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
    {Dtype::i16, "I16", 16},
    {Dtype::u16, "U16", 16},
    {Dtype::f16, "F16", 16},
    {Dtype::bf16, "BF16", 16},
    {Dtype::i32, "I32", 32},
    {Dtype::u32, "U32", 32},
    {Dtype::f32, "F32", 32},
    {Dtype::c64, "C64", 64},
    {Dtype::f64, "F64", 64},
    {Dtype::i64, "I64", 64},
    {Dtype::u64, "U64", 64},
}};
static_assert(is_by_number(kDtypes));

std::string_view name_of(Dtype dtype) { return row_of(dtype).name; }
std::uint32_t bits_of(Dtype dtype) { return row_of(dtype).bits; }

std::optional<Dtype> dtype_named(std::string_view name) {
  const auto* row =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const DtypeRow& each) { return each.name == name; });
  return row == kDtypes.end() ? std::nullopt : std::optional(row->dtype);
}

Outcome<std::uint64_t> tensor_bytes(Dtype dtype, std::span<const std::uint64_t> shape) {
  std::uint64_t bits = 1;
  bool overflows = false;
  for (const std::uint64_t dimension : shape) overflows |= __builtin_mul_overflow(bits, dimension, &bits);
  overflows |= __builtin_mul_overflow(bits, std::uint64_t{bits_of(dtype)}, &bits);
  if (overflows) return size_fault(dtype, shape, " has more bits than 64 bits can count");
  if (bits % 8 != 0) return size_fault(dtype, shape, " ends within a byte");
  return bits / 8;
}

std::string shown(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(shape.size(), kShownDimensions); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + (shape.size() > kShownDimensions ? ", ...]" : "]");
}

}  // namespace penstock::core
