// SPDX-License-Identifier: Apache-2.0

#include "base/printable.h"

#include <cstddef>
#include <cstdint>

namespace penstock::core {
namespace {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t size = 0;  // Number of bytes; 0 if they are not UTF-8.
};

constexpr CodePoint kNoText{};

unsigned char byte_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

// The number of bytes that the first byte of a sequence announces; 0 for a byte that begins none.
std::size_t size_of_sequence(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  if (first < 0xe0) return 2;
  if (first < 0xf0) return 3;
  return first < 0xf5 ? 4 : 0;
}

// Decodes the first character. Overlong forms, halves of surrogate pairs and values behind Unicode's end are invalid.
CodePoint decode(std::string_view text) {
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const std::size_t size = size_of_sequence(byte_at(text, 0));
  if (size == 0 || size > text.size()) return kNoText;
  std::uint32_t value = size == 1 ? byte_at(text, 0) : byte_at(text, 0) & (0x7fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte_at(text, i) & 0xc0) != 0x80) return kNoText;
    value = value << 6 | (byte_at(text, i) & 0x3fu);
  }
  if (value < kSmallest[size] || (value >= 0xd800 && value < 0xe000) || value > 0x10ffff) return kNoText;
  return {value, size};
}

bool is_harmless(std::uint32_t code_point) {
  if (code_point < 0x20) return false;
  if (code_point >= 0x7f && code_point < 0xa0) return false;       // DEL, C1.
  if (code_point >= 0x2028 && code_point <= 0x202e) return false;  // Line separators; embeddings and overrides.
  return code_point < 0x2066 || code_point > 0x2069;               // Isolates.
}

void append_escaped(std::string& safe, std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    safe += "\\x";
    safe += kDigits[byte_at(bytes, i) >> 4];
    safe += kDigits[byte_at(bytes, i) & 0xf];
  }
}

}  // namespace

std::string printable(std::string_view text, std::string_view kept) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const CodePoint next = decode(text);
    const std::string_view bytes = text.substr(0, next.size == 0 ? 1 : next.size);
    const bool is_kept = bytes.size() == 1 && kept.find(bytes[0]) != kept.npos;
    if (is_kept || (next.size != 0 && is_harmless(next.value))) safe += bytes;
    else append_escaped(safe, bytes);
    text.remove_prefix(bytes.size());
  }
  return safe;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint next = decode(text);
    if (next.size == 0) return false;
    text.remove_prefix(next.size);
  }
  return true;
}

}  // namespace penstock::core
