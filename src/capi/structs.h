// SPDX-License-Identifier: Apache-2.0

// Copies structures across the API boundary by their struct_size, which may be that of an older or newer version than
// ours.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/status.h"
#include "penstock/gpu.h"
#include "penstock/penstock.h"
#include "penstock/stripes.h"

namespace penstock::core {

// The smallest size of a structure in this SONAME, from its first release, so it never changes.
template <typename T>
inline constexpr std::uint32_t kFirstSize = 0;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_verdict> = 24;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_report> = 56;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_setting> = 48;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_session_info> = 32;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_device_info> = 168;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_file_info> = 72;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_request> = 96;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_queue_options> = 24;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_completion> = 88;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_stream_result> = 80;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_choice> = 40;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_counter> = 48;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_save_costs> = 72;

template <>
inline constexpr std::uint32_t kFirstSize<penstock_stripe_options> = 40;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_stripe_info> = 32;

template <>
inline constexpr std::uint32_t kFirstSize<penstock_gpu_options> = 48;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_gpu_value> = 128;
template <>
inline constexpr std::uint32_t kFirstSize<penstock_gpu_info> = 80;

// A larger size is an error: it comes from uninitialized memory.
inline constexpr std::uint32_t kStructSizeMax = 64u << 10;

template <typename T>
bool has_good_size(const T* given) {
  static_assert(kFirstSize<T> > 0 && kFirstSize<T> <= sizeof(T));
  return given != nullptr && given->struct_size >= kFirstSize<T> && given->struct_size <= kStructSizeMax;
}

template <typename T>
Status check_struct(const T* given) {
  if (has_good_size(given)) return success();
  return failure(Code::invalid_argument, "use a structure whose struct_size is not set");
}

// Checks an array to be filled in; an array of no elements passes unchecked.
template <typename T>
Status check_array(const T* given, std::uint32_t capacity) {
  return capacity > 0 ? check_struct(given) : success();
}

// An element of a checked array, by the element size of the caller's version.
template <typename T>
T* element(T* array, std::uint32_t index) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(array) + std::size_t{array->struct_size} * index);
}

// Reads the caller's values, with zeros for fields that its version does not have.
template <typename T>
Status read_element(const T* array, std::uint32_t index, T& known) {
  if (const Status status = check_struct(array); !status.ok()) return status;
  const std::uint32_t size = array->struct_size;
  const auto* const bytes = reinterpret_cast<const std::byte*>(element(array, index));
  const auto is_said = [](std::byte byte) { return byte != std::byte{}; };
  if (size > sizeof(T) && std::any_of(bytes + sizeof(T), bytes + size, is_said)) {
    return failure(Code::unsupported, "use the members that a newer version of penstock.h added to a structure");
  }
  known = {};
  std::memcpy(&known, bytes, std::min<std::size_t>(size, sizeof(T)));
  return success();
}

template <typename T>
Status read_struct(const T* given, T& known) {
  return read_element(given, 0, known);
}

// Writes into an element of a checked array as much as fits; further fields of the caller become zero.
template <typename T>
void write_element(T* array, std::uint32_t index, T value) {
  const std::uint32_t size = array->struct_size;
  value.struct_size = size;
  auto* const bytes = reinterpret_cast<std::byte*>(element(array, index));
  std::memcpy(bytes, &value, std::min<std::size_t>(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(bytes + sizeof(T), 0, size - sizeof(T));
}

template <typename T>
void write_struct(T* given, const T& value) {
  write_element(given, 0, value);
}

}  // namespace penstock::core
