// SPDX-License-Identifier: Apache-2.0

// What a row of the table of settings has. The rows are in cufile_rows.h and penstock_rows.h, the table is in table.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock::core {

// `anything`: whatever the file holds there is accepted, since nothing here looks at it.
enum class SettingKind : std::uint8_t { boolean, number, text, numbers, texts, anything };

struct SettingRow {
  std::string_view key;  // "section.name"; those of section "call" exist outside of the file only.
  SettingKind kind;
  std::string_view initial;    // The default, as text; the elements of lists with blanks between them. Always taken.
  std::string_view otherwise;  // What the default is where the machine decides it: then `initial` is none.
  std::string_view meaning;    // What it does, as a sentence; "" where it has no effect.
  std::string_view idle;       // Why it is without effect here, as a sentence's end; "" where it is served.
  std::int64_t low = 0;
  std::int64_t high = 0;        // 0: without bound.
  std::int64_t unit = 1;        // A number is a multiple of it.
  bool or_zero = false;         // 0 is taken, too, whatever `low` is.
  std::string_view words = "";  // What a text or each of a list may be, with blanks between; "" for anything,
  std::string_view (*choices)() = nullptr;    // or where another table has the words.
  std::string_view form = "a text";           // What a text without such words is.
  bool absolute = false;                      // It begins with a slash.
  bool (*takes)(std::string_view) = nullptr;  // Which texts without such words are taken; null for any.
  const char* variable = "";                  // Of the environment.
  const char* former = "";                    // What the variable was called before. It says nothing any more.
  std::string_view aliases = "";              // Older keys for the same, with blanks between.
  std::string_view printed = "";              // What NVIDIA's gdscheck calls it, where that differs from `key`.
  int parameter = -1;                         // The enumerator of cufile.h, of the type that the kind tells.
  // It can forbid something: a fallback through host memory, a direct path that lost data, a place, host memory, the
  // page cache. Passed over or misread, it would let happen what the user forbade, and nobody would hear of it. So one
  // that is misspelt or has no sense keeps the driver closed, in /etc/cufile.json as well.
  bool forbids = false;
};

}  // namespace penstock::core
