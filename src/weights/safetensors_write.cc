// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/align.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "base/shortage.h"
#include "weights/safetensors.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kAlignmentMin = 8;

void append_json(std::string& json, std::span<const std::uint64_t> numbers) {
  json += '[';
  for (std::size_t i = 0; i < numbers.size(); ++i) json.append(i > 0 ? "," : "").append(std::to_string(numbers[i]));
  json += ']';
}

void append_json(std::string& json, const SafetensorsTensor& tensor) {
  const std::uint64_t offsets[] = {tensor.begin, tensor.end};
  json += json_quoted(tensor.name);
  json.append(":{\"dtype\":\"").append(name_of(tensor.dtype)).append("\",\"shape\":");
  append_json(json, tensor.shape);
  json += ",\"data_offsets\":";
  append_json(json, offsets);
  json += '}';
}

std::string json_of(const SafetensorsHeader& header) {
  std::string json = "{";
  if (!header.metadata.empty() || header.has_empty_metadata) {
    json.append("\"").append(kSafetensorsMetadata).append("\":{");
    for (const auto& [key, value] : header.metadata) {
      if (json.back() != '{') json += ',';
      json += json_quoted(key) + ":" + json_quoted(value);
    }
    json += '}';
  }
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (json.size() > 1) json += ',';
    append_json(json, tensor);
  }
  return json + '}';
}

// Finds names and texts that the JSON cannot hold, because they are not UTF-8, and a tensor that would be read as the
// metadata, because it has its name.
std::optional<Fault> fault_of_texts(const SafetensorsHeader& header) {
  for (const SafetensorsTensor& tensor : header.tensors) {
    const std::string_view what = tensor.name == kSafetensorsMetadata ? "the name of what is no tensor"
                                  : !is_utf8(tensor.name)             ? "not UTF-8"
                                                                      : "";
    if (!what.empty()) return Fault{"tensor " + quoted_name(tensor.name) + ": its name is " + std::string(what)};
  }
  for (const auto& [key, value] : header.metadata) {
    const std::string what = std::string(kSafetensorsMetadata) + ": " + quoted_name(key);
    if (!is_utf8(key)) return Fault{what + " is not UTF-8"};
    if (!is_utf8(value)) return Fault{what + ": its text is not UTF-8"};
  }
  return std::nullopt;
}

std::optional<Fault> place(std::vector<SafetensorsTensor>& tensors) {
  std::uint64_t end = 0;
  for (SafetensorsTensor& tensor : tensors) {
    const Outcome<std::uint64_t> bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (!bytes.ok()) return Fault{"tensor " + quoted_name(tensor.name) + ": " + bytes.fault().text};
    tensor.begin = end;
    if (__builtin_add_overflow(end, *bytes, &end)) {
      return Fault{"tensor " + quoted_name(tensor.name) + ": with those before it, more bytes than 64 bits can count"};
    }
    tensor.end = end;
  }
  return std::nullopt;
}

Outcome<WrittenSafetensors> write(SafetensorsHeader&& header, std::uint64_t alignment) {
  if (!is_power_of_two(alignment) || alignment < kAlignmentMin) {
    return Fault{"alignment " + std::to_string(alignment) + ": expected a power of two from 8"};
  }
  if (std::optional<Fault> fault = fault_of_texts(header)) return std::move(*fault);
  if (std::optional<Fault> fault = place(header.tensors)) return std::move(*fault);
  std::string json = json_of(header);
  const std::uint64_t size = align_up(kSafetensorsSizeBytes + json.size(), alignment) - kSafetensorsSizeBytes;
  if (size > kSafetensorsHeaderMax) {
    return Fault{"the header would have " + std::to_string(size) + " bytes, expected at most " +
                 std::to_string(kSafetensorsHeaderMax)};
  }
  json.resize(size, ' ');
  // Everything else that readers refuse (such as a repeated name) is found by reading the result.
  if (const Outcome<SafetensorsHeader> read = parse_safetensors(json, header.data_bytes()); !read.ok()) {
    return read.fault();
  }
  std::string bytes;
  for (std::size_t i = 0; i < kSafetensorsSizeBytes; ++i) bytes += static_cast<char>(size >> 8 * i & 0xff);
  return WrittenSafetensors{bytes + json, std::move(header)};
}

}  // namespace

Outcome<WrittenSafetensors> write_safetensors(SafetensorsHeader header, std::uint64_t alignment) {
  return unless_short_of_memory([&] { return write(std::move(header), alignment); },
                                [] { return Outcome<WrittenSafetensors>(no_memory()); });
}

void sort_as_stock(std::vector<SafetensorsTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const SafetensorsTensor& one, const SafetensorsTensor& other) {
    return std::tie(other.dtype, one.name) < std::tie(one.dtype, other.name);
  });
}

}  // namespace penstock::core
