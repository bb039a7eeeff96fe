// SPDX-License-Identifier: Apache-2.0

// The header of a safetensors file, as a stranger wrote it and as we do. The input's first byte decides: JSON behind
// it, with as much data as its last tensor needs or as 4 more bytes say; a whole file; or tensors to write one for.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/align.h"
#include "base/printable.h"
#include "fuzz/fuzz.h"
#include "weights/safetensors.h"

namespace penstock::fuzz {
namespace {

using namespace core;
using nlohmann::json;

constexpr std::size_t kFaultBytesMax = 2000;
constexpr std::uint64_t kAlignments[] = {8, 16, 512, 4096};

void check_fault(const Fault& fault) {
  FUZZ_CHECK(!fault.text.empty() && fault.text.size() < kFaultBytesMax);
  FUZZ_CHECK(printable(fault.text) == fault.text);
  FUZZ_CHECK(!fault.is_shortage);
}

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

json read_otherwise(std::string_view text) { return json::parse(text.begin(), text.end(), nullptr, false); }

// The largest number that stands where a tensor's end does.
std::uint64_t data_wanted(const json& header) {
  std::uint64_t end = 0;
  if (!header.is_object()) return end;
  for (const auto& [name, entry] : header.items()) {
    if (!entry.is_object() || !entry.contains("data_offsets")) continue;
    const json& offsets = entry["data_offsets"];
    if (offsets.is_array() && offsets.size() == 2 && offsets[1].is_number_unsigned()) {
      end = std::max(end, offsets[1].get<std::uint64_t>());
    }
  }
  return end;
}

void check_tensor(const SafetensorsTensor& tensor, const json& entry) {
  FUZZ_CHECK(entry.size() == 3);
  FUZZ_CHECK(entry["dtype"] == name_of(tensor.dtype));
  FUZZ_CHECK(entry["shape"] == json(tensor.shape));
  FUZZ_CHECK(entry["data_offsets"] == json({tensor.begin, tensor.end}));
  unsigned __int128 bits = bits_of(tensor.dtype);
  const bool is_empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0u) != tensor.shape.end();
  for (const std::uint64_t dimension : tensor.shape) bits = is_empty ? 0 : bits * dimension;
  FUZZ_CHECK(bits == static_cast<unsigned __int128>(tensor.end - tensor.begin) * 8);
}

void check_reads_back(const SafetensorsHeader& header, std::uint64_t alignment) {
  const Outcome<WrittenSafetensors> file = write_safetensors(header, alignment);
  FUZZ_CHECK(file.ok());
  FUZZ_CHECK(file->header == header);
  FUZZ_CHECK(is_aligned(file->bytes.size(), alignment));
  const std::uint64_t in_all = std::min(header.data_bytes(), ~std::uint64_t{0} - file->bytes.size());
  const auto size = safetensors_header_size(std::as_bytes(std::span(file->bytes)), file->bytes.size() + in_all);
  FUZZ_CHECK(size.ok() && *size == file->bytes.size() - kSafetensorsSizeBytes);
  const auto again = parse_safetensors(std::string_view(file->bytes).substr(8), header.data_bytes());
  FUZZ_CHECK(again.ok() && *again == header);
}

void check_header(const SafetensorsHeader& header, const json& other, std::uint64_t data_bytes) {
  FUZZ_CHECK(other.is_object());
  const bool has_metadata = other.contains(kSafetensorsMetadata);
  FUZZ_CHECK(other.size() == header.tensors.size() + has_metadata);
  std::uint64_t end = 0;
  for (const SafetensorsTensor& tensor : header.tensors) {
    FUZZ_CHECK(tensor.begin == end && tensor.end >= end);
    end = tensor.end;
    FUZZ_CHECK(other.contains(tensor.name));
    check_tensor(tensor, other[tensor.name]);
  }
  FUZZ_CHECK(end == data_bytes);
  FUZZ_CHECK(header.metadata.size() == (has_metadata ? other["__metadata__"].size() : 0));
  for (const auto& [key, value] : header.metadata) FUZZ_CHECK(other["__metadata__"][key] == value);
}

void parse(std::string_view text, const json& other, std::uint64_t data_bytes) {
  const Outcome<SafetensorsHeader> header = parse_safetensors(text, data_bytes);
  if (!header.ok()) return check_fault(header.fault());
  check_header(*header, other, data_bytes);
  for (const std::uint64_t alignment : kAlignments) check_reads_back(*header, alignment);
}

void parse_file(std::span<const std::uint8_t> file) {
  const auto size =
      safetensors_header_size(std::as_bytes(file.first(std::min<std::size_t>(file.size(), 8))), file.size());
  if (!size.ok()) return check_fault(size.fault());
  FUZZ_CHECK(*size <= file.size() - 8);
  const std::string_view text = text_of(file.subspan(8, *size));
  parse(text, read_otherwise(text), file.size() - 8 - *size);
}

std::string some_text(Decisions& decisions) {
  const std::size_t size = decisions.below(12);
  std::string text;
  while (text.size() < size) text += decisions.number<char>();
  return text;
}

// Why a writer must refuse: what each name says, and whether one is there twice.
bool has_bad_names(const SafetensorsHeader& header) {
  std::set<std::string_view> names = {kSafetensorsMetadata};
  std::set<std::string_view> keys;
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (!is_utf8(tensor.name) || !names.insert(tensor.name).second) return true;
  }
  for (const auto& [key, value] : header.metadata) {
    if (!is_utf8(key) || !is_utf8(value) || !keys.insert(key).second) return true;
  }
  return false;
}

void write(Decisions decisions) {
  SafetensorsHeader header;
  const std::uint64_t alignment = decisions.one_of(kAlignments);
  const bool is_sorted = decisions.yes();
  for (std::uint32_t i = decisions.below(4); i > 0; --i) {
    std::string key = some_text(decisions);
    header.metadata.emplace_back(std::move(key), some_text(decisions));
  }
  while (!decisions.over()) {
    SafetensorsTensor tensor{some_text(decisions), static_cast<Dtype>(decisions.below(kDtypeCount)), {}};
    for (std::uint32_t i = decisions.below(5); i > 0; --i) {
      tensor.shape.push_back(decisions.number<std::uint64_t>() >> decisions.below(64));
    }
    header.tensors.push_back(std::move(tensor));
  }
  if (is_sorted) sort_as_stock(header.tensors);
  const Outcome<WrittenSafetensors> file = write_safetensors(header, alignment);
  if (file.ok()) {
    FUZZ_CHECK(!has_bad_names(header));
    check_reads_back(file->header, alignment);
  } else {
    check_fault(file.fault());
  }
}

void run(Decisions decisions) {
  switch (decisions.below(4)) {
    case 0: {
      const json other = read_otherwise(text_of(decisions.rest()));
      return parse(text_of(decisions.rest()), other, data_wanted(other));
    }
    case 1: {
      const auto data_bytes = decisions.number<std::uint32_t>();
      return parse(text_of(decisions.rest()), read_otherwise(text_of(decisions.rest())), data_bytes);
    }
    case 2: return parse_file(decisions.rest());
    default: return write(decisions);
  }
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  penstock::fuzz::run({data, size});
  return 0;
}
