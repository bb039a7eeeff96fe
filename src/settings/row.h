// SPDX-License-Identifier: Apache-2.0

// One row of the table of settings. The rows are in cufile_rows.h and penstock_rows.h, the table is in table.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock::core {

// `anything`: every value is accepted, because nothing here looks at it.
enum class SettingKind : std::uint8_t { boolean, number, text, numbers, texts, anything };

struct SettingRow {
  std::string_view key;  // "section.name"; keys of section "call" exist only outside files.
  SettingKind kind;
  std::string_view initial;    // The default as text; the elements of lists are separated by blanks. Always accepted.
  std::string_view otherwise;  // How the machine decides the default, if it does; `initial` is empty then.
  std::string_view meaning;    // Its effect as a sentence; "" if it has none.
  std::string_view idle;       // The reason why it has no effect here, as the end of a sentence; "" if it is supported.
  std::int64_t low = 0;
  std::int64_t high = 0;        // 0: no limit.
  std::int64_t unit = 1;        // A number is a multiple of it.
  bool or_zero = false;         // 0 is accepted as well, whatever `low` is.
  std::string_view words = "";  // The words that a text, or each of a list, may be, separated by blanks; "" for any.
  std::string_view (*choices)() = nullptr;    // Set if another table supplies the words.
  std::string_view form = "a text";           // How to describe a text that is not one of such words.
  bool absolute = false;                      // The text must begin with a slash.
  bool (*takes)(std::string_view) = nullptr;  // True for texts that are accepted without such words; null: all are.
  const char* variable = "";                  // The environment variable.
  const char* former = "";                    // The variable's former name, which has no effect any more.
  std::string_view counted = "";              // Things that a number counts, where people take it for bytes.
  std::string_view aliases = "";              // Older keys for the same setting, separated by blanks.
  std::string_view printed = "";              // The name in NVIDIA's gdscheck, if it is not `key`.
  int parameter = -1;                         // The enumerator in cufile.h, of the enum for `kind`; -1: none.
  // It can forbid something: a fallback through host memory, a direct path that lost data, a place, host memory, the
  // page cache. If such a setting were ignored or misread, something that the user forbade would happen unnoticed. So
  // one that is misspelt or wrong keeps the driver closed, also in /etc/cufile.json.
  bool forbids = false;
};

}  // namespace penstock::core
