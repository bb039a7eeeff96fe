// SPDX-License-Identifier: Apache-2.0

// The header of a safetensors file: 8 bytes with its size, little-endian, then JSON with the place of each tensor in
// the bytes that follow. Loaders and savers of weights parse it from bytes that they have read, and write it as bytes
// that they store: nothing here touches a file or the tensors' contents.
//
// The parser accepts all that the format allows and nothing else, since headers come from strangers: the tensors that
// it returns cover the data exactly, each lies within it, and their sizes agree with their types and shapes. It keeps
// no tree and does not recurse; it allocates a few times the header's size, and at most some thirty times if the header
// is made for that. Functions that return an Outcome throw nothing: a shortage of memory is a fault, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weights/dtype.h"
#include "weights/outcome.h"

namespace penstock::core {

inline constexpr std::size_t kSafetensorsSizeBytes = 8;                   // The size field at the file's begin.
inline constexpr std::uint64_t kSafetensorsHeaderMin = 2;                 // {}
inline constexpr std::uint64_t kSafetensorsHeaderMax = 100'000'000;       // Every reader refuses larger ones.
inline constexpr std::string_view kSafetensorsMetadata = "__metadata__";  // The only key that names no tensor.

struct SafetensorsTensor {
  std::string name;  // UTF-8; may be empty or hold any character. Quote it in messages with quoted_name().
  Dtype dtype = Dtype::u8;
  std::vector<std::uint64_t> shape;  // Empty: one element.
  std::uint64_t begin = 0;           // In bytes from the start of the data:
  std::uint64_t end = 0;             // the data follows the 8 bytes and the header.

  bool operator==(const SafetensorsTensor&) const = default;
};

struct SafetensorsHeader {
  // In the order of offsets; empty ones at one offset stand in the file's order.
  std::vector<SafetensorsTensor> tensors;
  std::vector<std::pair<std::string, std::string>> metadata = {};  // In the file's order.
  bool has_empty_metadata = false;                                 // "__metadata__":{}, which readers tell from none.

  std::uint64_t data_bytes() const { return tensors.empty() ? 0 : tensors.back().end; }
  bool operator==(const SafetensorsHeader&) const = default;
};

// The size of the JSON behind the file's first 8 bytes; `first` holds these, or all of a shorter file.
Outcome<std::uint64_t> safetensors_header_size(std::span<const std::byte> first, std::uint64_t file_size);

// `json` is the whole JSON with the spaces at its end; `data_bytes` is the number of bytes behind it in the file. A
// fault names the tensor, what was expected and what was found.
Outcome<SafetensorsHeader> parse_safetensors(std::string_view json, std::uint64_t data_bytes);

// A name that occurs twice. Numbers are sorted, and names only where two of their numbers are alike: names come from
// strangers, who could choose them so that a hash table is slow.
std::optional<std::string_view> repeated_name(std::vector<std::string_view> names);

struct WrittenSafetensors {
  std::string bytes;         // The start of the file: the 8 bytes and the JSON. The data follows at once.
  SafetensorsHeader header;  // The given header, with the offsets to which the tensors' bytes must be written.
};

// Places the tensors one after the other in the given order; their `begin` and `end` are ignored. Spaces behind the
// JSON make the data begin at a multiple of `alignment`, a power of two from 8 up: with 4096, a tensor at offset 0 can
// be read around the page cache; other tensors are aligned only as the order makes them. A fault if the parser would
// refuse the result.
Outcome<WrittenSafetensors> write_safetensors(SafetensorsHeader header, std::uint64_t alignment = 8);

// Sorts tensors as the format's own library does: the types from the last of the enumeration to the first, so that
// every tensor is aligned for its elements, and the tensors of a type by name.
void sort_as_stock(std::vector<SafetensorsTensor>& tensors);

// A name from a file, for a message: quoted, escaped and cut.
std::string quoted_name(std::string_view name);

}  // namespace penstock::core
