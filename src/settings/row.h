// SPDX-License-Identifier: Apache-2.0

// One row of the table of settings. The rows are in cufile_rows.h and penstock_rows.h, the table is in table.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock::core {

// `anything`: whatever the file holds there is accepted, since nothing here looks at it.
enum class SettingKind : std::uint8_t { boolean, number, text, numbers, texts, anything };

struct SettingRow {
  std::string_view key;  // "section.name"; keys of section "call" exist outside of the file only.
  SettingKind kind;
  std::string_view initial;    // The default, as text; the elements of lists with blanks between them. Always taken.
  std::string_view otherwise;  // How the machine decides the default, if it does; `initial` is empty then.
  std::string_view meaning;    // Its effect as a sentence; "" if it has none.
  std::string_view idle;       // Why it is without effect here, as a sentence's end; "" if it is served.
  std::int64_t low = 0;
  std::int64_t high = 0;        // 0: without bound.
  std::int64_t unit = 1;        // A number is a multiple of it.
  bool or_zero = false;         // 0 is taken, too, whatever `low` is.
  std::string_view words = "";  // The words that a text, or each of a list, may be, with blanks; "" for any,
  std::string_view (*choices)() = nullptr;    // or where another table has the words.
  std::string_view form = "a text";           // The form of a text without such words.
  bool absolute = false;                      // It begins with a slash.
  bool (*takes)(std::string_view) = nullptr;  // True for texts that are taken without such words; null for any.
  const char* variable = "";                  // The environment variable.
  const char* former = "";                    // The variable's former name. It says nothing any more.
  std::string_view aliases = "";              // Older keys for the same, with blanks between.
  std::string_view printed = "";              // The name in NVIDIA's gdscheck, if it is not `key`.
  int parameter = -1;                         // The enumerator of cufile.h, of the type that the kind tells.
  // It can forbid something: a fallback through host memory, a direct path that lost data, a place, host memory, the
  // page cache. Passed over or misread, it would let happen what the user forbade, and the user would not hear of it.
  // So one that is misspelt or has no sense keeps the driver closed, in /etc/cufile.json as well.
  bool forbids = false;
};

}  // namespace penstock::core
