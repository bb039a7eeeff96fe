// SPDX-License-Identifier: Apache-2.0

// The header of a safetensors file: 8 bytes that say its size, little-endian, then JSON that says where each tensor
// lies in the bytes behind it. Loaders and savers of weights parse it from bytes they have read, and write it as bytes
// that they store: nothing here touches a file or the tensors' contents.
//
// The parser takes all that the format allows and nothing beside it, since a header comes from strangers: the tensors
// it gives cover the data exactly, each lies within it, and their sizes are the ones that their types and shapes say.
// It keeps no tree and does not recurse; it allocates a few times the header's size, and at most some thirty times that
// of a header which is made for it. Functions that give an Outcome throw nothing: want of memory is a fault, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weights/dtype.h"
#include "weights/outcome.h"

namespace penstock::core {

inline constexpr std::size_t kSafetensorsSizeBytes = 8;                   // The header's size, at the file's begin.
inline constexpr std::uint64_t kSafetensorsHeaderMin = 2;                 // {}
inline constexpr std::uint64_t kSafetensorsHeaderMax = 100'000'000;       // Every reader stops there.
inline constexpr std::string_view kSafetensorsMetadata = "__metadata__";  // The one key that names no tensor.

struct SafetensorsTensor {
  std::string name;  // UTF-8; may be empty or hold any character. For messages, quote it by quoted_name().
  Dtype dtype = Dtype::u8;
  std::vector<std::uint64_t> shape;  // Empty: one element.
  std::uint64_t begin = 0;           // In bytes from where the data begins,
  std::uint64_t end = 0;             // which is 8 and the header's size.

  bool operator==(const SafetensorsTensor&) const = default;
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  // By offset; empty ones at one offset as in the file.
  std::vector<std::pair<std::string, std::string>> metadata = {};  // In the file's order.

  std::uint64_t data_bytes() const { return tensors.empty() ? 0 : tensors.back().end; }
  bool operator==(const SafetensorsHeader&) const = default;
};

// The size of the JSON that follows the file's first 8 bytes; `first` has these, or all of a shorter file.
Outcome<std::uint64_t> safetensors_header_size(std::span<const std::byte> first, std::uint64_t file_size);

// `json` is all of it, with the spaces at its end; `data_bytes` is what the file has behind it. The fault names the
// tensor, what was expected and what is there.
Outcome<SafetensorsHeader> parse_safetensors(std::string_view json, std::uint64_t data_bytes);

struct WrittenSafetensors {
  std::string bytes;         // The file's begin: the 8 bytes and the JSON. The data follows at once.
  SafetensorsHeader header;  // The given header, with the offsets that the tensors' bytes must be written to.
};

// Places the tensors one after the other in the order given, whatever their `begin` and `end` said. Spaces behind the
// JSON let the data begin at a multiple of `alignment`, a power of two from 8: with 4096, a tensor at offset 0 can be
// read around the page cache; other tensors are no better aligned than the order makes them. A fault where the parser
// would refuse the result.
Outcome<WrittenSafetensors> write_safetensors(SafetensorsHeader header, std::uint64_t alignment = 8);

// Puts them in the order of the format's own library: the types from the last of the enumeration to the first, so that
// every tensor is aligned for its elements, and the tensors of a type by name.
void sort_as_stock(std::vector<SafetensorsTensor>& tensors);

// A name from a file for a message: in quotes, escaped, cut.
std::string quoted_name(std::string_view name);

}  // namespace penstock::core
