// SPDX-License-Identifier: Apache-2.0

// The parser sends one event after the other. A fault of one value is found at its event; faults between several
// tensors (repeated names, holes, overlaps) are found at the end.
#include "weights/safetensors.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/printable.h"
#include "base/shortage.h"

namespace penstock::core {
namespace {

constexpr std::size_t kQuotedBytesMax = 100;
constexpr std::string_view kFields[] = {"dtype", "shape", "data_offsets"};
constexpr std::size_t kDtypeField = 0;
constexpr std::size_t kShapeField = 1;

std::string number(std::uint64_t value) { return std::to_string(value); }

std::string cut(std::string_view text) {
  if (text.size() <= kQuotedBytesMax) return printable(text);
  std::size_t end = kQuotedBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // Never cuts within a letter.
  return printable(text.substr(0, end)) + "...";
}

std::string tensor_text(std::string_view name) { return "tensor " + quoted_name(name); }
std::string offsets_text(const SafetensorsTensor& tensor) {
  return "data_offsets [" + number(tensor.begin) + ", " + number(tensor.end) + "]";
}

// Receives the parser's events. A return of false ends the parsing; fault() says why.
class Taker {
 public:
  explicit Taker(SafetensorsHeader& header) : header_(header) {}

  Fault fault() { return {std::move(fault_)}; }

  // ---- The parser's events.
  bool null() {
    // This means no metadata: some exporters write it, and the format's own reader accepts it.
    if (place_ != Place::header || tensor_.name != kSafetensorsMetadata) return refuse_found("null");
    return begin_metadata();
  }
  bool boolean(bool value) { return refuse_found(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return refuse_found(value == 0 ? "-0" : std::to_string(value)); }
  bool number_float(double, const std::string& text) { return refuse_found(cut(text)); }
  bool binary(std::vector<std::uint8_t>&) { return refuse_found("bytes"); }
  bool number_unsigned(std::uint64_t value) {
    if (place_ == Place::shape) {
      tensor_.shape.push_back(value);
    } else if (place_ == Place::offsets && offset_count_ < 2) {
      (offset_count_++ == 0 ? tensor_.begin : tensor_.end) = value;
    } else {
      return refuse_found((place_ == Place::offsets ? "a third, " : "") + number(value));
    }
    return true;
  }
  bool string(std::string& value) {
    if (place_ == Place::metadata) {
      header_.metadata.emplace_back(std::move(key_), std::move(value));
      return true;
    }
    if (place_ != Place::entry || field_ != kDtypeField) return refuse_found("the text " + quoted_name(value));
    const std::optional<Dtype> dtype = dtype_named(value);
    if (!dtype) return refuse_tensor("dtype " + quoted_name(value) + " is none of " + dtype_names());
    tensor_.dtype = *dtype;
    return true;
  }
  bool key(std::string& name) {
    if (place_ == Place::header) tensor_ = {std::move(name), Dtype::u8, {}, 0, 0};
    else if (place_ == Place::metadata) key_ = std::move(name);
    else return take_field(name);
    return true;
  }
  bool start_object(std::size_t) {
    if (place_ == Place::before) {
      place_ = Place::header;
    } else if (place_ != Place::header) {
      return refuse_found("an object");
    } else if (tensor_.name == kSafetensorsMetadata) {
      if (!begin_metadata()) return false;
      place_ = Place::metadata;
    } else {
      place_ = Place::entry;
      given_ = 0;
      offset_count_ = 0;
    }
    return true;
  }
  bool end_object() {
    if (place_ == Place::entry && !take_tensor()) return false;
    if (place_ == Place::metadata) header_.has_empty_metadata = header_.metadata.empty();
    place_ = Place::header;
    return true;
  }
  bool start_array(std::size_t) {
    if (place_ != Place::entry || field_ == kDtypeField) return refuse_found("a list");
    place_ = field_ == kShapeField ? Place::shape : Place::offsets;
    return true;
  }
  bool end_array() {
    if (place_ == Place::offsets && offset_count_ != 2) return refuse_found("only " + number(offset_count_));
    place_ = Place::entry;
    return true;
  }
  template <typename Error>
  bool parse_error(std::size_t position, const std::string& token, const Error&) {
    return refuse("the header is not JSON in UTF-8 at its byte " + number(position) + ", near " + quoted_name(token));
  }

 private:
  enum class Place { before, header, entry, shape, offsets, metadata };

  static std::string dtype_names() {
    std::string names;
    for (const DtypeRow& row : kDtypes) names.append(names.empty() ? "" : ", ").append(row.name);
    return names;
  }

  bool refuse(std::string sentence) {
    fault_ = std::move(sentence);
    return false;
  }

  // Says what is expected at the parser's place.
  std::string expected() const {
    const std::string tensor = tensor_text(tensor_.name);
    switch (place_) {
      case Place::before: break;
      case Place::header:
        if (tensor_.name == kSafetensorsMetadata) return tensor_.name + ": expected an object of texts";
        return tensor + ": expected an object with dtype, shape and data_offsets";
      case Place::entry:
        return tensor + ": " + std::string(kFields[field_]) + ": expected " +
               (field_ == kDtypeField ? "a text" : "a list of whole numbers");
      case Place::shape: return tensor + ": shape: expected whole numbers from 0 to 2^64 - 1";
      case Place::offsets: return tensor + ": data_offsets: expected two whole numbers from 0 to 2^64 - 1";
      case Place::metadata: return std::string(kSafetensorsMetadata) + ": " + quoted_name(key_) + ": expected a text";
    }
    return "expected an object";
  }
  bool refuse_found(std::string_view what) { return refuse(expected() + ", found " + std::string(what)); }

  bool refuse_tensor(std::string_view what) { return refuse(tensor_text(tensor_.name) + ": " + std::string(what)); }

  bool take_field(std::string_view name) {
    const auto* const found = std::find(std::begin(kFields), std::end(kFields), name);
    if (found == std::end(kFields)) {
      return refuse_tensor("unknown key " + quoted_name(name) + ", expected dtype, shape and data_offsets alone");
    }
    field_ = static_cast<std::size_t>(found - std::begin(kFields));
    if ((given_ & 1u << field_) != 0) return refuse_tensor(std::string(name) + " is given twice");
    given_ |= 1u << field_;
    return true;
  }

  bool begin_metadata() {
    if (has_metadata_) return refuse(std::string(kSafetensorsMetadata) + " is given twice");
    has_metadata_ = true;
    return true;
  }

  bool take_tensor() {
    for (std::size_t i = 0; i < std::size(kFields); ++i) {
      if ((given_ & 1u << i) == 0) return refuse_tensor(std::string(kFields[i]) + " is missing");
    }
    if (tensor_.begin > tensor_.end) return refuse_tensor(offsets_text(tensor_) + " end before they begin");
    const Outcome<std::uint64_t> wanted = tensor_bytes(tensor_.dtype, tensor_.shape);
    if (!wanted.ok()) return refuse_tensor(wanted.fault().text);
    const std::uint64_t held = tensor_.end - tensor_.begin;
    if (held != *wanted) {
      return refuse_tensor(offsets_text(tensor_) + " hold " + number(held) + " bytes, but " +
                           std::string(name_of(tensor_.dtype)) + " of shape " + shown(tensor_.shape) + " has " +
                           number(*wanted));
    }
    header_.tensors.push_back(std::move(tensor_));
    return true;
  }

  SafetensorsHeader& header_;
  std::string fault_;
  Place place_ = Place::before;
  bool has_metadata_ = false;
  SafetensorsTensor tensor_;      // The current tensor: the latest key of the header and its fields so far.
  std::string key_;               // The latest key of the metadata.
  std::size_t field_ = 0;         // The latest key of the tensor.
  unsigned given_ = 0;            // A bit for each key of the tensor so far.
  std::size_t offset_count_ = 0;  // The number of offsets so far.
};

template <typename Items, typename NameOf>
std::optional<std::string_view> given_twice(const Items& items, NameOf name_of_item) {
  std::vector<std::string_view> names;
  names.reserve(items.size());
  for (const auto& item : items) names.push_back(name_of_item(item));
  return repeated_name(std::move(names));
}

std::optional<Fault> fault_of_names(const SafetensorsHeader& header) {
  const auto tensor = given_twice(header.tensors, [](const auto& item) { return std::string_view(item.name); });
  if (tensor) return Fault{tensor_text(*tensor) + " is given twice"};
  const auto key = given_twice(header.metadata, [](const auto& item) { return std::string_view(item.first); });
  if (key) return Fault{std::string(kSafetensorsMetadata) + ": " + quoted_name(*key) + " is given twice"};
  return std::nullopt;
}

// Says what is wrong with the place where `tensor` begins, if all before it ended at `end`.
Fault fault_of_place(const SafetensorsTensor& tensor, const SafetensorsTensor* before, std::uint64_t end) {
  const std::string what = tensor_text(tensor.name) + ": " + offsets_text(tensor);
  if (tensor.begin < end) {
    return {what + " overlap those of " + tensor_text(before->name) + ", which ends at " + number(end)};
  }
  return {what + " leave a hole: expected to begin at " + number(end) +
          (before == nullptr ? ", where the data begins" : ", where " + tensor_text(before->name) + " ends")};
}

// Expects the tensors in the order of their offsets.
std::optional<Fault> fault_of_layout(const SafetensorsHeader& header, std::uint64_t data_bytes) {
  const SafetensorsTensor* before = nullptr;
  for (const SafetensorsTensor& tensor : header.tensors) {
    const std::uint64_t end = before == nullptr ? 0 : before->end;
    if (tensor.begin != end) return fault_of_place(tensor, before, end);
    before = &tensor;
  }
  if (header.data_bytes() == data_bytes) return std::nullopt;
  const std::string has = "the file has " + number(data_bytes) + " bytes of data";
  if (before == nullptr) return Fault{"the header names no tensor, but " + has};
  return Fault{tensor_text(before->name) + ", the last one, ends at " + number(before->end) + ", but " + has};
}

Outcome<SafetensorsHeader> parse(std::string_view json, std::uint64_t data_bytes) {
  if (!json.starts_with('{'))
    return Fault{"the header begins with " + quoted_name(json.substr(0, 1)) + ", expected \"{\""};
  // The JSON library would take a zero for the end of the text.
  const std::size_t zero = json.find('\0');
  if (zero != json.npos) return Fault{"the header is not JSON in UTF-8 at its byte " + number(zero + 1) + ": a zero"};
  SafetensorsHeader header;
  Taker taker(header);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &taker)) return taker.fault();
  const std::string_view behind = json.substr(json.rfind('}') + 1);
  if (const std::size_t other = behind.find_first_not_of(' '); other != behind.npos) {
    return Fault{"behind the header's JSON stands " + quoted_name(behind.substr(other, 1)) + ", expected spaces alone"};
  }
  if (std::optional<Fault> fault = fault_of_names(header)) return std::move(*fault);
  // An empty tensor stands before the tensor that begins at the same offset.
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const auto& one, const auto& other) {
    return std::pair(one.begin, one.end) < std::pair(other.begin, other.end);
  });
  if (std::optional<Fault> fault = fault_of_layout(header, data_bytes)) return std::move(*fault);
  return header;
}

Outcome<std::uint64_t> header_size(std::span<const std::byte> first, std::uint64_t file_size) {
  if (first.size() < kSafetensorsSizeBytes || file_size < kSafetensorsSizeBytes) {
    return Fault{"the file has " + number(file_size) + " bytes, too few for a safetensors header"};
  }
  std::uint64_t size = 0;
  for (std::size_t i = kSafetensorsSizeBytes; i-- > 0;) size = size << 8 | std::to_integer<std::uint64_t>(first[i]);
  if (size < kSafetensorsHeaderMin || size > kSafetensorsHeaderMax) {
    return Fault{"the file's first 8 bytes say that its header has " + number(size) + " bytes, expected " +
                 number(kSafetensorsHeaderMin) + " to " + number(kSafetensorsHeaderMax) + ": is it safetensors?"};
  }
  if (size > file_size - kSafetensorsSizeBytes) {
    return Fault{"the header has " + number(size) + " bytes behind the first 8, but the file has " + number(file_size) +
                 " in all: it is cut off"};
  }
  return size;
}

}  // namespace

std::optional<std::string_view> repeated_name(std::vector<std::string_view> names) {
  std::vector<std::size_t> hashes;
  hashes.reserve(names.size());
  for (const std::string_view name : names) hashes.push_back(std::hash<std::string_view>{}(name));
  std::sort(hashes.begin(), hashes.end());
  if (std::adjacent_find(hashes.begin(), hashes.end()) == hashes.end()) return std::nullopt;
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  return twice == names.end() ? std::nullopt : std::optional(*twice);
}

Outcome<std::uint64_t> safetensors_header_size(std::span<const std::byte> first, std::uint64_t file_size) {
  return unless_short_of_memory([&] { return header_size(first, file_size); },
                                [] { return Outcome<std::uint64_t>(no_memory()); });
}

Outcome<SafetensorsHeader> parse_safetensors(std::string_view json, std::uint64_t data_bytes) {
  return unless_short_of_memory([&] { return parse(json, data_bytes); },
                                [] { return Outcome<SafetensorsHeader>(no_memory()); });
}

std::string quoted_name(std::string_view name) { return "\"" + cut(name) + "\""; }

}  // namespace penstock::core
